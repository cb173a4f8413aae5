#include <string>

#include "fuzz/fuzz_support.h"
#include "unit/session/fake_queues.inc"
#include "unit/session/harness.h"

namespace tarry::testing {
namespace {

/// The connection's state machine with a client that says what the input says.
class FuzzedSession final : public SessionTest {
 public:
  void TestBody() override {}

  /// Input: a byte of flags, then either bytes as they are, or frames of (type, channel, two bytes
  /// of length, payload), which are sent well framed.
  void run(const uint8_t* data, size_t size) {
    if (size == 0) return;
    const uint8_t flags = data[0];
    std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
    one_byte_at_a_time = flags & 1 && rest.size() < 300;
    connect();
    if (flags & 2) {
      raw(kProtocolHeader);
      say_start_ok();
      say(0, method::ConnectionTuneOk{0, 0, 0});
      say(0, method::ConnectionOpen{"/"});
      if (flags & 4) {
        say(1, method::ChannelOpen{});
        say(1, method::QueueDeclare{"q", false, true, false, false, false, {}});
        if (flags & 8) say(1, method::ConfirmSelect{});
        if (flags & 16) say(1, method::TxSelect{});
      }
      pump();
    }
    if (flags & 32) {
      raw(rest);
    } else {
      while (rest.size() >= 4) {
        const auto type = static_cast<FrameType>(rest[0]);
        const uint16_t channel = static_cast<uint8_t>(rest[1]);
        const size_t length = static_cast<uint8_t>(rest[2]) | static_cast<uint8_t>(rest[3]) << 8;
        rest.remove_prefix(4);
        frame(type, channel, rest.substr(0, length));
        rest.remove_prefix(std::min(rest.size(), length));
        pump();
      }
    }
    pump();
    // What came out are whole frames, in the right order for a decoder.
    (void)parse();
    FUZZ_CHECK(output.empty() || output.size() < kFrameOverheadBytes || pipe.closing ||
               pipe.aborted || stuck);
    clock.advance_ms(60'000);
    on_shard([] {});
    pump();
    on_shard([this] { connection->on_closed(); });
  }
};

}  // namespace
}  // namespace tarry::testing

/// Whatever a client sends, the connection stays in one piece, and ends when it is told to.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool quiet = tarry::set_log_level("off");
  FUZZ_CHECK(quiet);
  tarry::testing::FuzzedSession session;
  session.run(data, size);
  return 0;
}
