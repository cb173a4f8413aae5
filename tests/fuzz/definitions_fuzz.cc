#include <string>

#include "fuzz/fuzz_support.h"
#include "tarrymq/broker/management.h"
#include "tarrymq/runtime/log.h"
#include "unit/broker/broker_fixture.h"

namespace {

using namespace tarry;

/// A broker that outlives many inputs, and a new one now and then, so that what they left does not
/// pile up.
class FuzzedBroker final : public BrokerTest {
 public:
  FuzzedBroker() { FUZZ_CHECK(try_start().empty()); }
  void TestBody() override {}

  void import_text(const std::string& text) {
    auto answer = std::make_shared<std::promise<bool>>();
    auto done = answer->get_future();
    management().import_definitions("", text, [answer](Result<ImportReport, PeerError> report) {
      FUZZ_CHECK(report.has_value() || !report.error().text.empty());
      answer->set_value(report.has_value());
    });
    if (!done.get()) return;
    FUZZ_CHECK(management().export_definitions("").has_value());
  }
};

}  // namespace

/// An import ends with a report or with words, and what it made can be exported.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr int kInputsABroker = 500;
  static const bool quiet = set_log_level("off");
  FUZZ_CHECK(quiet);
  // Made at once: so it is destroyed before what RocksDB makes for itself at its first use.
  static auto broker = std::make_unique<FuzzedBroker>();
  static int left = kInputsABroker;
  if (left-- == 0) {
    broker.reset();
    broker = std::make_unique<FuzzedBroker>();
    left = kInputsABroker;
  }
  broker->import_text(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
