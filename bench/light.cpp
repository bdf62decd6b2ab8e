// A load client that costs next to nothing: AMQP 1.0 straight on a socket, without a library's objects for each
// message. Where broker and clients share a few cores, load.cpp takes nearly half of them, and what is left over
// bounds what can be seen of the broker. What it is told, does and prints is the same as with load.cpp.
//   light send|recv HOST:PORT ADDRESS COUNT BODY_BYTES IN_FLIGHT
// send: durable messages, at most IN_FLIGHT unacknowledged; the clock stops at the last acknowledgement.
// recv: credit IN_FLIGHT, accepts every message; the clock stops at the last message.
// LOAD_USER and LOAD_PASS in the environment (SASL PLAIN); without them SASL ANONYMOUS.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

using Clock = std::chrono::steady_clock;
using Bytes = std::string;

[[noreturn]] void fail(const std::string& why) {
  std::cerr << "light: " << why << std::endl;
  exit(1);
}

// How values are written.

Bytes big_endian(uint64_t value, int size) {
  Bytes bytes(size, 0);
  for (int i = 0; i < size; ++i) bytes[i] = char(value >> (8 * (size - 1 - i)));
  return bytes;
}
Bytes octet(uint8_t value) { return Bytes(1, char(value)); }
Bytes null() { return octet(0x40); }
Bytes flag(bool value) { return octet(value ? 0x41 : 0x42); }
Bytes count32(uint32_t value) { return octet(0x70) + big_endian(value, 4); }
Bytes sized(uint8_t short_code, const Bytes& value) {
  if (value.size() < 256) return octet(short_code) + octet(value.size()) + value;
  return octet(short_code | 0x10) + big_endian(value.size(), 4) + value;
}
Bytes binary(const Bytes& value) { return sized(0xa0, value); }
Bytes text(const Bytes& value) { return sized(0xa1, value); }
Bytes symbol(const Bytes& value) { return sized(0xa3, value); }
Bytes described(uint8_t code, const Bytes& value) { return octet(0) + octet(0x53) + octet(code) + value; }
template <typename... Each>
Bytes list(const Each&... fields) {
  Bytes all = (Bytes() + ... + fields);
  if (all.size() < 255) return sized(0xc0, octet(sizeof...(fields)) + all);
  return sized(0xc0, big_endian(sizeof...(fields), 4) + all);
}
Bytes frame(uint8_t type, const Bytes& body) {
  return big_endian(body.size() + 8, 4) + octet(2) + octet(type) + Bytes(2, 0) + body;
}

constexpr uint8_t AMQP = 0, SASL = 1;
constexpr uint8_t OPEN = 0x10, BEGIN = 0x11, ATTACH = 0x12, FLOW = 0x13, TRANSFER = 0x14, DISPOSITION = 0x15,
                  DETACH = 0x16, END = 0x17, CLOSE = 0x18, ACCEPTED = 0x24, SOURCE = 0x28, TARGET = 0x29,
                  SASL_INIT = 0x41, SASL_OUTCOME = 0x44, HEADER = 0x70, PROPERTIES = 0x73, DATA = 0x75;
constexpr uint32_t WINDOW = 0x7fffffff, FRAME_BYTES = 65536;
constexpr int ID_DIGITS = 10, WAIT_MS = 60000;

// The fields of a list that came, looked at one by one; what was left out at its end is null.
struct Fields {
  const uint8_t* at;
  const uint8_t* end;
  long left = 0;

  uint64_t bits(int size) {
    if (end - at < size) fail("a frame ends too early");
    uint64_t value = 0;
    while (size-- > 0) value = value << 8 | *at++;
    return value;
  }
  // Enter the list that follows; returns what it describes.
  uint8_t enter() {
    if (bits(1) != 0) fail("something without a descriptor came");
    uint8_t form = bits(1), code = 0;
    if (form == 0x53) code = bits(1);
    else if (form == 0x80) code = bits(8);
    else fail("a descriptor of an unknown form came");
    switch (bits(1)) {
      case 0x45: left = 0; break;
      case 0xc0: bits(1); left = bits(1); break;
      case 0xd0: bits(4); left = bits(4); break;
      default: fail("something came where a list belongs");
    }
    return code;
  }
  bool has_next() { return left-- > 0; }
  // A number or a boolean; nothing where the field is null.
  std::optional<uint32_t> number() {
    if (!has_next()) return {};
    switch (bits(1)) {
      case 0x40: return {};
      case 0x41: return 1;
      case 0x42: case 0x43: return 0;
      case 0x50: case 0x52: case 0x56: return bits(1);
      case 0x70: return bits(4);
      default: fail("a field of an unknown form came");
    }
  }
  void pass(int count = 1) {
    for (; count > 0 && has_next(); --count) {
      uint8_t form = bits(1);
      constexpr uint8_t sizes[] = {0, 1, 2, 4, 8, 16};
      if (form >= 0x40 && form < 0xa0) skip(sizes[(form >> 4) - 4]);
      else if (form >= 0xa0) skip(bits(form & 0x10 ? 4 : 1));
      else fail("a field of an unknown form came");
    }
  }
  void skip(uint64_t size) {
    if (uint64_t(end - at) < size) fail("a frame ends too early");
    at += size;
  }
};

class Connection {
 public:
  explicit Connection(const Bytes& host_and_port) : in_(1 << 20) {
    size_t colon = host_and_port.rfind(':');
    if (colon == Bytes::npos) fail("HOST:PORT is wanted");
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(atoi(host_and_port.c_str() + colon + 1));
    if (inet_pton(AF_INET, host_and_port.substr(0, colon).c_str(), &where.sin_addr) != 1) fail("HOST is an address");
    socket_ = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(socket_, reinterpret_cast<sockaddr*>(&where), sizeof where) != 0) fail("nobody listens there");
    int on = 1;
    setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  ~Connection() { ::close(socket_); }

  void put(const Bytes& bytes) { out_ += bytes; }
  size_t unsent() const { return out_.size() - written_; }

  // Write what the socket takes; wait until something comes, or more can be written.
  void turn() {
    write();
    pollfd wait{socket_, short(unsent() ? POLLIN | POLLOUT : POLLIN), 0};
    if (poll(&wait, 1, WAIT_MS) <= 0) fail("nothing came for a minute");
    if (wait.revents & POLLOUT) write();
    if (wait.revents & ~POLLOUT) read();
  }
  void await_header(const Bytes& header) {
    while (filled_ - taken_ < header.size()) turn();
    if (memcmp(&in_[taken_], header.data(), header.size()) != 0) fail("the peer speaks something else");
    taken_ += header.size();
  }
  // The next frame that is there as a whole; those without a body only say that the peer lives.
  std::optional<Fields> next() {
    while (filled_ - taken_ >= 8) {
      const uint8_t* start = &in_[taken_];
      size_t size = Fields{start, start + 4}.bits(4);
      if (size < 8 || size > in_.size()) fail("a frame of an impossible size came");
      if (filled_ - taken_ < size) break;
      taken_ += size;
      if (size > 8) return Fields{start + 4 * start[4], start + size};
    }
    return {};
  }

 private:
  void write() {
    while (unsent()) {
      ssize_t count = send(socket_, out_.data() + written_, unsent(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (count < 0 && errno == EAGAIN) return;
      if (count < 0) fail("the peer hung up");
      written_ += count;
    }
    out_.clear();
    written_ = 0;
  }
  void read() {
    memmove(in_.data(), &in_[taken_], filled_ - taken_);
    filled_ -= taken_;
    taken_ = 0;
    ssize_t count = recv(socket_, &in_[filled_], in_.size() - filled_, MSG_DONTWAIT);
    if (count <= 0) fail("the peer hung up");
    filled_ += count;
  }

  int socket_;
  Bytes out_;
  std::vector<uint8_t> in_;
  size_t written_ = 0, taken_ = 0, filled_ = 0;
};

class Load {
 public:
  Load(const Bytes& mode, const Bytes& where, const Bytes& address, long count, int body_bytes, long in_flight)
      : mode_(mode), address_(address), is_sender_(mode == "send"), count_(count), in_flight_(in_flight),
        connection_(where) {
    Bytes transfer = described(TRANSFER, list(count32(0), count32(0), binary(Bytes(4, 0)), count32(0), flag(false)));
    Bytes until_id = described(HEADER, list(flag(true))) + described(PROPERTIES, list(text(Bytes(ID_DIGITS, '0'))));
    message_ = frame(AMQP, transfer + until_id + described(DATA, binary(Bytes(body_bytes, 0))));
    // Behind the head of the frame, the descriptor, the head of the list, the handle and the number's code.
    number_at_ = 8 + 3 + 3 + 5 + 1;
    tag_at_ = number_at_ + 4 + 2;
    id_at_ = 8 + transfer.size() + until_id.size() - ID_DIGITS;
  }

  void run() {
    log_in();
    attach();
    while (done_ < count_) {
      if (auto fields = connection_.next()) {
        take(*fields);
      } else {
        if (is_sender_) fill();
        else settle();
        connection_.turn();
      }
    }
    double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    std::cout << mode_ << " " << done_ << " messages " << seconds << " s " << long(done_ / seconds) << " per_second"
              << std::endl;
    if (!is_sender_) settle();
    connection_.put(frame(AMQP, described(CLOSE, list())));
    while (!is_closed_) {
      if (auto fields = connection_.next()) is_closed_ = fields->enter() == CLOSE;
      else connection_.turn();
    }
  }

 private:
  void log_in() {
    const char* user = getenv("LOAD_USER");
    const char* password = getenv("LOAD_PASS");
    Bytes sasl_header("AMQP\x03\x01\x00\x00", 8), header("AMQP\x00\x01\x00\x00", 8), response;
    if (user && password) response = octet(0) + user + octet(0) + password;
    connection_.put(sasl_header);
    connection_.put(frame(SASL, described(SASL_INIT, list(symbol(user ? "PLAIN" : "ANONYMOUS"), binary(response)))));
    connection_.await_header(sasl_header);
    for (bool is_in = false; !is_in;) {
      auto fields = connection_.next();
      if (!fields) connection_.turn();
      else if (fields->enter() == SASL_OUTCOME && !(is_in = fields->number() == 0)) fail("the peer knows us not");
    }
    connection_.put(header);
    Bytes name = text("light-" + std::to_string(getpid()));
    connection_.put(frame(AMQP, described(OPEN, list(name, text("localhost"), count32(FRAME_BYTES)))));
    connection_.put(frame(AMQP, described(BEGIN, list(null(), count32(0), count32(WINDOW), count32(WINDOW)))));
    connection_.await_header(header);
  }
  void attach() {
    Bytes there = list(text(address_)), source = described(SOURCE, is_sender_ ? list() : there),
          target = described(TARGET, is_sender_ ? there : list()), first = is_sender_ ? count32(0) : null();
    connection_.put(frame(AMQP, described(ATTACH, list(text("light"), count32(0), flag(!is_sender_), null(), null(),
                                                       source, target, null(), null(), first))));
    if (!is_sender_) give_credit();
  }
  void give_credit() {
    given_ = done_ + in_flight_;
    connection_.put(frame(AMQP, described(FLOW, list(count32(0), count32(WINDOW), count32(0), count32(WINDOW),
                                                     count32(0), count32(done_), count32(in_flight_)))));
  }

  void take(Fields fields) {
    switch (fields.enter()) {
      case BEGIN: return take_begin(fields);
      case FLOW: return take_flow(fields);
      case TRANSFER: return take_transfer(fields);
      case DISPOSITION: return take_disposition(fields);
      case DETACH: case END: case CLOSE: fail("the peer ended it");
    }
  }
  void take_begin(Fields fields) {
    fields.pass(2);
    window_end_ = fields.number().value_or(0);
  }
  void take_flow(Fields fields) {
    uint32_t next = fields.number().value_or(0);
    window_end_ = next + fields.number().value_or(0);
    fields.pass(2);
    if (!fields.number()) return;
    uint32_t delivered = fields.number().value_or(0);
    credit_end_ = delivered + fields.number().value_or(0);
  }
  void take_transfer(Fields fields) {
    if (done_ == 0) start_ = Clock::now();
    fields.pass();
    last_ = fields.number().value_or(0);
    fields.pass(3);
    if (fields.number().value_or(0)) fail("a message in several frames came; smaller bodies are wanted");
    ++done_;
  }
  void take_disposition(Fields fields) {
    if (!is_sender_) return;
    fields.pass();
    uint32_t first = fields.number().value_or(0), last = fields.number().value_or(first);
    fields.pass();
    if (!fields.has_next() || fields.enter() != ACCEPTED) fail("a message was not accepted");
    done_ += last - first + 1;
  }

  void fill() {
    if (sent_ == 0) start_ = Clock::now();
    while (sent_ < count_ && sent_ - done_ < in_flight_ && int32_t(credit_end_ - uint32_t(sent_)) > 0 &&
           int32_t(window_end_ - uint32_t(sent_)) > 0 && connection_.unsent() < 4 * FRAME_BYTES) {
      Bytes number = big_endian(sent_, 4), id = std::to_string(sent_);
      message_.replace(number_at_, 4, number);
      message_.replace(tag_at_, 4, number);
      message_.replace(id_at_ + ID_DIGITS - id.size(), id.size(), id);
      connection_.put(message_);
      ++sent_;
    }
  }
  void settle() {
    if (settled_ < done_) {
      uint32_t first = last_ - uint32_t(done_ - settled_ - 1);
      connection_.put(frame(AMQP, described(DISPOSITION, list(flag(true), count32(first), count32(last_), flag(true),
                                                              described(ACCEPTED, list())))));
      settled_ = done_;
    }
    if (given_ - done_ <= in_flight_ * 3 / 4) give_credit();
  }

  Bytes mode_, address_, message_;
  bool is_sender_, is_closed_ = false;
  long count_, in_flight_, sent_ = 0, done_ = 0, settled_ = 0, given_ = 0;
  size_t number_at_, tag_at_, id_at_;
  uint32_t credit_end_ = 0, window_end_ = 0, last_ = 0;
  Clock::time_point start_;
  Connection connection_;
};

int main(int argc, char** argv) {
  if (argc != 7) {
    std::cerr << "light send|recv HOST:PORT ADDRESS COUNT BODY_BYTES IN_FLIGHT\n";
    return 2;
  }
  Load(argv[1], argv[2], argv[3], atol(argv[4]), atoi(argv[5]), atol(argv[6])).run();
}
