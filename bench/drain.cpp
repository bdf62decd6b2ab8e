// How many messages are left? On Apache Proton C++.
//   drain HOST:PORT ADDRESS QUIET_MS
// Accepts messages until none came for QUIET_MS, then closes. The quiet time also lets a broker apply the
// last settlements before the connection ends: load.cpp closes at once after its last message, and some
// brokers then forget what they have not applied yet. Prints: N drained
#include "credentials.hpp"

#include <iostream>
#include <proton/connection.hpp>
#include <proton/container.hpp>
#include <proton/delivery.hpp>
#include <proton/duration.hpp>
#include <proton/error_condition.hpp>
#include <proton/message.hpp>
#include <proton/messaging_handler.hpp>
#include <proton/receiver.hpp>
#include <proton/receiver_options.hpp>
#include <proton/work_queue.hpp>
#include <string>

struct Drain : proton::messaging_handler {
  std::string url, address;
  long quiet_ms, got = 0, got_before = 0;
  proton::receiver receiver;

  void on_container_start(proton::container& c) override { c.connect(url, credentials()); }
  void on_connection_open(proton::connection& c) override {
    receiver = c.open_receiver(address, proton::receiver_options().credit_window(1000).auto_accept(true));
  }
  void on_receiver_open(proton::receiver&) override { look_again_later(); }
  void on_message(proton::delivery&, proton::message&) override { ++got; }
  void look_again_later() {
    receiver.work_queue().schedule(proton::duration(quiet_ms), [this] { look(); });
  }
  void look() {
    if (got != got_before) {
      got_before = got;
      look_again_later();
      return;
    }
    std::cout << got << " drained" << std::endl;
    receiver.connection().close();
  }
  void on_error(const proton::error_condition& e) override {
    std::cerr << "drain failed: " << e.what() << std::endl;
    exit(1);
  }
};

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "drain HOST:PORT ADDRESS QUIET_MS\n";
    return 2;
  }
  Drain drain;
  drain.url = argv[1];
  drain.address = argv[2];
  drain.quiet_ms = atol(argv[3]);
  proton::container(drain).run();
}
