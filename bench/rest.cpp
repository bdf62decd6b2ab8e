// The load client of REST messaging: plain sockets, one request at a time on each connection.
//   rest send HOST:PORT PATH COUNT BODY_BYTES CONNECTIONS
//     POST of a body to PATH/messages, answered 201.
//   rest take HOST:PORT PATH COUNT 0 CONNECTIONS
//     DELETE of PATH/messages/head, answered 200.
//   rest get HOST:PORT PATH COUNT 0 CONNECTIONS
//     GET of PATH, answered 200.
// The token of all requests is in LOAD_TOKEN. Prints RATE per_second, and P50 us_p50, P99 us_p99 of the
// waits for answers. Every answer must have the status; the first that has not ends the run with an error.
#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <netinet/tcp.h>
#include <stdexcept>
#include <string>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>
using clk = std::chrono::steady_clock;

struct Connection {
  int socket = -1;
  std::string answer;
  clk::time_point asked;
};

static int connect_to(const std::string& host, int port) {
  int made = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  if (inet_pton(AF_INET, host.c_str(), &to.sin_addr) != 1 ||
      connect(made, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0)
    throw std::runtime_error(std::string("cannot connect: ") + std::strerror(errno));
  int on = 1;
  setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return made;
}

static void ask(Connection& connection, const std::string& request) {
  connection.asked = clk::now();
  size_t sent = 0;
  while (sent < request.size()) {
    ssize_t size = send(connection.socket, request.data() + sent, request.size() - sent, MSG_NOSIGNAL);
    if (size <= 0) throw std::runtime_error("the broker hung up");
    sent += static_cast<size_t>(size);
  }
}

// Whether an answer is whole; it must have the status, and is taken off.
static bool is_answered(std::string& answer, const std::string& status) {
  size_t head = answer.find("\r\n\r\n");
  if (head == std::string::npos) return false;
  if (answer.compare(0, status.size(), status) != 0) throw std::runtime_error("answered: " + answer);
  size_t length = 0, at = answer.find("Content-Length: ");
  if (at != std::string::npos && at < head) length = std::stoul(answer.substr(at + 16));
  if (answer.size() < head + 4 + length) return false;
  answer.erase(0, head + 4 + length);
  return true;
}

static int run(int argc, char** argv) {
  if (argc != 7) throw std::runtime_error("usage: rest send|take|get HOST:PORT PATH COUNT BODY_BYTES CONNECTIONS");
  const std::string mode = argv[1], where = argv[2], path = argv[3];
  const size_t colon = where.find(':');
  const long count = std::stol(argv[4]);
  const std::string body(std::stoul(argv[5]), 'x');
  const char* token = std::getenv("LOAD_TOKEN");
  if (token == nullptr) throw std::runtime_error("LOAD_TOKEN is not set");
  const std::string line = mode == "send"   ? "POST " + path + "/messages"
                           : mode == "take" ? "DELETE " + path + "/messages/head?timeout=5"
                                            : "GET " + path;
  const std::string status = mode == "send" ? "HTTP/1.1 201 " : "HTTP/1.1 200 ";
  std::string request = line + " HTTP/1.1\r\nHost: " + where + "\r\nAuthorization: " + token + "\r\n";
  if (mode == "send")
    request += "Content-Type: application/octet-stream\r\nContent-Length: " + std::to_string(body.size()) + "\r\n";
  request += "\r\n" + body;
  std::vector<Connection> connections(std::stoul(argv[6]));
  int poll = epoll_create1(0);
  for (size_t at = 0; at < connections.size(); ++at) {
    connections[at].socket = connect_to(where.substr(0, colon), std::stoi(where.substr(colon + 1)));
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = at;
    epoll_ctl(poll, EPOLL_CTL_ADD, connections[at].socket, &event);
  }
  std::vector<double> waits;
  waits.reserve(static_cast<size_t>(count));
  long asked = 0, answered = 0;
  const auto begun = clk::now();
  for (auto& each : connections)
    if (asked < count) { ask(each, request); ++asked; }
  epoll_event events[64];
  char bytes[65536];
  while (answered < count) {
    int ready = epoll_wait(poll, events, 64, 30000);
    if (ready <= 0) throw std::runtime_error("no answer within 30 s");
    for (int at = 0; at < ready; ++at) {
      Connection& each = connections[events[at].data.u64];
      ssize_t size = recv(each.socket, bytes, sizeof bytes, 0);
      if (size <= 0) throw std::runtime_error("the broker hung up");
      each.answer.append(bytes, static_cast<size_t>(size));
      if (!is_answered(each.answer, status)) continue;
      waits.push_back(std::chrono::duration<double, std::micro>(clk::now() - each.asked).count());
      ++answered;
      if (asked < count) { ask(each, request); ++asked; }
    }
  }
  const double seconds = std::chrono::duration<double>(clk::now() - begun).count();
  std::sort(waits.begin(), waits.end());
  std::cout << static_cast<double>(count) / seconds << " per_second " << waits[waits.size() / 2] << " us_p50 "
            << waits[waits.size() * 99 / 100] << " us_p99\n";
  for (auto& each : connections) close(each.socket);
  return 0;
}

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "rest: " << error.what() << "\n";
    return 1;
  }
}
