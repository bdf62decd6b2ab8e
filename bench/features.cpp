// The load client of single features, on Apache Proton C++. It differs from load.cpp in what its messages
// carry and in how it receives; how it counts is the same.
//   features send HOST:PORT ADDRESS COUNT BODY_BYTES IN_FLIGHT ID_PREFIX [MARK=VALUE]...
//     Durable messages, every id unlike all others as long as the prefix is. Marks:
//       sessions=N  session ids, message after message in turns over N
//       subjects=N  subjects, likewise
//       due_ms=T    scheduled for that time, milliseconds since 1970
//   features receive HOST:PORT ADDRESS COUNT RECEIVERS CREDIT
//     Several receivers on one connection, accepting every message.
//   features sessions HOST:PORT ADDRESS COUNT RECEIVERS CREDIT PER_SESSION
//     The same on a queue with sessions: each receiver accepts the next session, receives and accepts its
//     PER_SESSION messages, releases it, waits for that to be confirmed and accepts the next.
//   features accept HOST:PORT ADDRESS COUNT
//     Accepts the next session and releases it, time and again. Prints P50 us_p50, of the accept alone.
//   features hold HOST:PORT ADDRESS COUNT
//     Receives messages and settles none; says "ready" and holds them until its input ends.
#include "credentials.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <iostream>
#include <proton/annotation_key.hpp>
#include <proton/connection.hpp>
#include <proton/container.hpp>
#include <proton/delivery.hpp>
#include <proton/error_condition.hpp>
#include <proton/message.hpp>
#include <proton/message_id.hpp>
#include <proton/messaging_handler.hpp>
#include <proton/receiver.hpp>
#include <proton/receiver_options.hpp>
#include <proton/sender.hpp>
#include <proton/source.hpp>
#include <proton/source_options.hpp>
#include <proton/timestamp.hpp>
#include <proton/tracker.hpp>
#include <string>
#include <thread>
#include <vector>
using clk = std::chrono::steady_clock;

struct Arguments {
  std::string mode, url, address;
  std::vector<std::string> rest;
  long number(size_t at) const { return std::stol(rest.at(at)); }
  // The value of MARK=VALUE among what follows the positions, or 0.
  long mark(const std::string& name) const {
    for (const auto& each : rest)
      if (each.compare(0, name.size() + 1, name + "=") == 0) return std::stol(each.substr(name.size() + 1));
    return 0;
  }
};

// What all modes share: one connection, a count to reach, failing loudly, the rate at the end.
struct Mode : proton::messaging_handler {
  const Arguments& arguments;
  const long count;
  long reached = 0;
  clk::time_point start;
  proton::connection connection;
  std::atomic<bool> is_over{false};

  explicit Mode(const Arguments& a) : arguments(a), count(a.number(0)) {}
  void on_container_start(proton::container& c) override { connection = c.connect(arguments.url, credentials()); }
  void on_error(const proton::error_condition& e) override { fail(e.what()); }
  void fail(const std::string& why) {
    if (is_over) return;
    std::cerr << arguments.mode << " failed: " << why << std::endl;
    exit(1);
  }
  void finish(const std::string& figures) {
    is_over = true;
    std::cout << arguments.mode << " " << reached << " " << figures << std::endl;
    connection.close();
  }
  void finish_with_rate() {
    double s = std::chrono::duration<double>(clk::now() - start).count();
    finish("messages " + std::to_string(s) + " s " + std::to_string(long(reached / s)) + " per_second");
  }
};

struct Send : Mode {
  using Mode::Mode;
  const int body_bytes = int(arguments.number(1));
  const long in_flight = arguments.number(2);
  const std::string prefix = arguments.rest.at(3);
  const long sessions = arguments.mark("sessions"), subjects = arguments.mark("subjects");
  const long due_ms = arguments.mark("due_ms");
  long sent = 0;
  proton::sender sender;

  void on_connection_open(proton::connection& c) override { sender = c.open_sender(arguments.address); }
  void on_sendable(proton::sender& s) override {
    if (sent == 0) start = clk::now();
    for (; s.credit() > 0 && sent < count && sent - reached < in_flight; ++sent) s.send(message(sent));
  }
  proton::message message(long index) const {
    proton::message m;
    m.id(proton::message_id(prefix + std::to_string(index)));
    m.durable(true);
    if (sessions) m.group_id("session-" + std::to_string(index % sessions));
    if (subjects) m.subject("subject-" + std::to_string(index % subjects));
    if (due_ms) m.message_annotations().put("x-opt-scheduled-enqueue-time", proton::timestamp(due_ms));
    m.body(proton::binary(body_bytes));
    return m;
  }
  void on_tracker_accept(proton::tracker&) override {
    if (++reached == count) finish_with_rate();
    else on_sendable(sender);
  }
  void on_tracker_reject(proton::tracker&) override { fail("rejected"); }
  void on_tracker_release(proton::tracker&) override { fail("released"); }
};

struct Receive : Mode {
  using Mode::Mode;
  const long receivers = arguments.number(1);
  const int credit = int(arguments.number(2));

  void on_connection_open(proton::connection& c) override {
    for (long i = 0; i < receivers; ++i)
      c.open_receiver(arguments.address, proton::receiver_options().credit_window(credit).auto_accept(true));
  }
  void on_message(proton::delivery& d, proton::message&) override { count_one(d); }
  void count_one(proton::delivery& d) {
    if (reached == 0) start = clk::now();
    if (++reached < count) return;
    d.accept();
    finish_with_rate();
  }
};

// A filter whose value is null asks for the next session that has messages.
proton::receiver_options next_session() {
  proton::source::filter_map filters;
  filters.put("com.microsoft:session-filter", proton::value());
  return proton::receiver_options().source(proton::source_options().filters(filters));
}

struct Sessions : Receive {
  // One of the receivers: a link after the other, each on the session that was next.
  struct Slot : proton::messaging_handler {
    Sessions& all;
    long left = 0;
    explicit Slot(Sessions& s) : all(s) {}
    void open() {
      left = all.per_session;
      auto options = next_session().handler(*this).credit_window(all.credit).auto_accept(true);
      all.connection.open_receiver(all.arguments.address, options);
    }
    void on_message(proton::delivery& d, proton::message&) override {
      all.count_one(d);
      if (--left > 0) return;
      d.accept();
      if (!all.is_over) d.receiver().close();
    }
    void on_receiver_close(proton::receiver&) override {
      if (!all.is_over) open();
    }
    void on_error(const proton::error_condition& e) override { all.fail(e.what()); }
  };
  using Receive::Receive;
  const long per_session = arguments.number(3);
  std::deque<Slot> slots;

  void on_connection_open(proton::connection&) override {
    for (long i = 0; i < receivers; ++i) slots.emplace_back(*this).open();
  }
};

struct Accept : Mode {
  using Mode::Mode;
  std::vector<double> waits_us;

  void on_connection_open(proton::connection&) override { open(); }
  void open() {
    start = clk::now();
    connection.open_receiver(arguments.address, next_session().credit_window(0));
  }
  void on_receiver_open(proton::receiver& r) override {
    // A refusal is an attach without a source, followed by a detach that says why.
    if (r.source().address().empty()) return;
    waits_us.push_back(std::chrono::duration<double, std::micro>(clk::now() - start).count());
    r.close();
  }
  void on_receiver_close(proton::receiver&) override {
    if (++reached < count) return open();
    auto middle = waits_us.begin() + waits_us.size() / 2;
    std::nth_element(waits_us.begin(), middle, waits_us.end());
    finish("sessions " + std::to_string(*middle) + " us_p50");
  }
};

struct Hold : Mode {
  using Mode::Mode;
  // The broker gives an AMQP session no more than 65,536 deliveries that it does not settle, and reads
  // ahead for a receiver a part of what that asks for at once: so several, who ask for little.
  static constexpr long PER_SESSION = 25'000;
  static constexpr int CREDIT = 500;
  long asked = 0;

  void on_connection_open(proton::connection& c) override {
    auto options = proton::receiver_options().credit_window(0).auto_accept(false);
    for (long left = count; left > 0; left -= PER_SESSION) {
      ask(c.open_session().open_receiver(arguments.address, options), CREDIT);
    }
  }
  void on_message(proton::delivery& d, proton::message&) override {
    if (++reached == count) std::cout << "ready " << count << std::endl;
    ask(d.receiver(), 1);
  }
  // For no more than are to be held: what was held and is free again is for others.
  void ask(proton::receiver r, long more) {
    more = std::min(more, count - asked);
    if (more > 0) r.add_credit(uint32_t(more));
    asked += std::max(more, 0L);
  }
};

int hold(const Arguments& arguments) {
  Hold mode(arguments);
  proton::container container(mode);
  std::thread until_input_ends([&] {
    while (std::cin.get() != EOF) {
    }
    mode.is_over = true;
    container.stop();
  });
  container.run();
  until_input_ends.join();
  return 0;
}

template <typename M> int run(const Arguments& arguments) {
  M mode(arguments);
  proton::container(mode).run();
  return 0;
}

int main(int argc, char** argv) try {
  if (argc < 5) throw std::out_of_range("see the head of features.cpp");
  const Arguments arguments{argv[1], argv[2], argv[3], {argv + 4, argv + argc}};
  if (arguments.mode == "send") return run<Send>(arguments);
  if (arguments.mode == "receive") return run<Receive>(arguments);
  if (arguments.mode == "sessions") return run<Sessions>(arguments);
  if (arguments.mode == "accept") return run<Accept>(arguments);
  if (arguments.mode == "hold") return hold(arguments);
  throw std::out_of_range("no mode " + arguments.mode);
} catch (const std::exception& e) {
  std::cerr << "features: " << e.what() << std::endl;
  return 2;
}
