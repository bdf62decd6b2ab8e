// Time to acknowledgement at a fixed rate, on Apache Proton C++.
//   latency HOST:PORT ADDRESS PER_SECOND SECONDS BODY_BYTES
// Durable messages become due in steps of one millisecond. Each is timed from the moment it was due, not
// from the moment it could be written, so a broker (or this client) that falls behind is charged for the
// wait it causes ("coordinated omission"). The first tenth of the messages warms up and is not counted.
// Prints: latency COUNT messages P50 us_p50 P99 us_p99 WORST us_worst RATE per_second
#include "credentials.hpp"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <proton/connection.hpp>
#include <proton/container.hpp>
#include <proton/duration.hpp>
#include <proton/error_condition.hpp>
#include <proton/message.hpp>
#include <proton/message_id.hpp>
#include <proton/messaging_handler.hpp>
#include <proton/sender.hpp>
#include <proton/tracker.hpp>
#include <proton/work_queue.hpp>
#include <string>
#include <vector>
using clk = std::chrono::steady_clock;

struct Paced : proton::messaging_handler {
  std::string url, address;
  double per_second;
  long count, sent = 0, acked = 0;
  int body_bytes;
  clk::time_point start;
  proton::connection connection;
  proton::sender sender;
  std::vector<double> waits_us;

  void on_container_start(proton::container& c) override { connection = c.connect(url, credentials()); }
  void on_connection_open(proton::connection& c) override { sender = c.open_sender(address); }
  void on_sender_open(proton::sender&) override {
    start = clk::now();
    tick();
  }
  void on_sendable(proton::sender&) override { send_due(); }

  // Which message is due when: whole milliseconds from the start, so both sides agree on it.
  clk::time_point due_at(long index) const {
    return start + std::chrono::milliseconds(long(index * 1000.0 / per_second));
  }
  void tick() {
    send_due();
    if (sent < count)
      sender.work_queue().schedule(proton::duration(1), [this] { tick(); });
  }
  void send_due() {
    if (start == clk::time_point()) return;
    auto now = clk::now();
    while (sent < count && sender.credit() > 0 && due_at(sent) <= now) {
      proton::message m;
      m.id(proton::message_id(std::to_string(sent)));
      m.durable(true);
      m.body(proton::binary(body_bytes));
      sender.send(m, tag_of(sent));
      ++sent;
    }
  }
  // A broker may acknowledge out of order (fragments commit on their own), so the tag names the message.
  static proton::binary tag_of(long index) { return proton::binary(std::to_string(index)); }
  static long index_of(const proton::tracker& t) { return std::stol(std::string(t.tag())); }
  void on_tracker_accept(proton::tracker& t) override {
    long index = index_of(t);
    if (index >= count / 10)
      waits_us.push_back(std::chrono::duration<double, std::micro>(clk::now() - due_at(index)).count());
    if (++acked == count) done();
  }
  void on_tracker_reject(proton::tracker&) override { fail("rejected"); }
  void on_tracker_release(proton::tracker&) override { fail("released"); }
  void on_error(const proton::error_condition& e) override { fail(e.what()); }
  void fail(const std::string& why) {
    std::cerr << "latency failed: " << why << std::endl;
    exit(1);
  }
  double percentile(double share) const { return waits_us[size_t(share * (waits_us.size() - 1))]; }
  void done() {
    double s = std::chrono::duration<double>(clk::now() - start).count();
    std::sort(waits_us.begin(), waits_us.end());
    std::cout << "latency " << waits_us.size() << " messages " << percentile(0.50) << " us_p50 "
              << percentile(0.99) << " us_p99 " << waits_us.back() << " us_worst " << long(count / s)
              << " per_second" << std::endl;
    connection.close();
  }
};

int main(int argc, char** argv) {
  if (argc != 6) {
    std::cerr << "latency HOST:PORT ADDRESS PER_SECOND SECONDS BODY_BYTES\n";
    return 2;
  }
  Paced p;
  p.url = argv[1];
  p.address = argv[2];
  p.per_second = atof(argv[3]);
  p.count = long(p.per_second * atof(argv[4]));
  p.body_bytes = atoi(argv[5]);
  p.waits_us.reserve(p.count);
  proton::container(p).run();
}
