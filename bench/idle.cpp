// Many connections that do nothing, on Apache Proton C++.
//   idle HOST:PORT ADDRESS COUNT
// Each connection is authenticated, opened, has one session and one attached receiver that asks for
// nothing (no credit). Prints "ready COUNT" when all are attached and holds them until its standard
// input ends.
#include "credentials.hpp"

#include <atomic>
#include <iostream>
#include <proton/connection.hpp>
#include <proton/container.hpp>
#include <proton/error_condition.hpp>
#include <proton/messaging_handler.hpp>
#include <proton/receiver.hpp>
#include <proton/receiver_options.hpp>
#include <string>
#include <thread>

struct Idle : proton::messaging_handler {
  std::string url, address;
  int count, asked = 0, attached = 0;
  std::atomic<bool> is_stopping{false};

  void on_container_start(proton::container& c) override { connect_next(c); }
  // One after another: what is measured is what a connection costs, not a storm of them.
  void connect_next(proton::container& c) {
    ++asked;
    c.connect(url, credentials());
  }
  void on_connection_open(proton::connection& c) override {
    c.open_receiver(address, proton::receiver_options().credit_window(0));
  }
  void on_receiver_open(proton::receiver& r) override {
    ++attached;
    if (attached == count) std::cout << "ready " << count << std::endl;
    if (asked < count) connect_next(r.container());
  }
  void on_error(const proton::error_condition& e) override {
    if (is_stopping) return;
    std::cerr << "idle failed: " << e.what() << std::endl;
    exit(1);
  }
};

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "idle HOST:PORT ADDRESS COUNT\n";
    return 2;
  }
  Idle idle;
  idle.url = argv[1];
  idle.address = argv[2];
  idle.count = atoi(argv[3]);
  proton::container container(idle);
  std::thread until_input_ends([&] {
    while (std::cin.get() != EOF) {
    }
    idle.is_stopping = true;
    container.stop();
  });
  container.run();
  until_input_ends.join();
}
