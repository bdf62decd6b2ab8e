// Is there a message? On Apache Proton C++.
//   first HOST:PORT ADDRESS WAIT_MS
// Asks for one message and gives it back (released, so the queue is as before). Prints "first delivery"
// or, after WAIT_MS without one, "no delivery".
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

struct First : proton::messaging_handler {
  std::string url, address;
  long wait_ms;
  bool answered = false;
  proton::connection connection;

  void on_container_start(proton::container& c) override { connection = c.connect(url, credentials()); }
  void on_connection_open(proton::connection& c) override {
    c.open_receiver(address, proton::receiver_options().credit_window(0).auto_accept(false));
  }
  void on_receiver_open(proton::receiver& r) override {
    r.add_credit(1);
    r.work_queue().schedule(proton::duration(wait_ms), [this] { answer("no delivery"); });
  }
  void on_message(proton::delivery& d, proton::message&) override {
    d.release();
    answer("first delivery");
  }
  void on_error(const proton::error_condition& e) override {
    if (answered) return;
    std::cerr << "first failed: " << e.what() << std::endl;
    exit(1);
  }
  void answer(const char* what) {
    if (answered) return;
    answered = true;
    std::cout << what << std::endl;
    connection.close();
  }
  // The container would wait for the timer, which has nothing more to say.
  void on_connection_close(proton::connection&) override { exit(0); }
};

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "first HOST:PORT ADDRESS WAIT_MS\n";
    return 2;
  }
  First first;
  first.url = argv[1];
  first.address = argv[2];
  first.wait_ms = atol(argv[3]);
  proton::container(first).run();
}
