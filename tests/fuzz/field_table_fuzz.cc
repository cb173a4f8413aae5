#include "fuzz/fuzz_support.h"
#include "tarrymq/amqp/field_table.h"
#include "tarrymq/amqp/table_view.h"

/// What decodes can be encoded again, and then changes no more. A bool octet above 1 becomes 1, all
/// else keeps its bytes.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tarry;
  const ByteSpan in = fuzz::input(data, size);
  const auto checked = validate_table(in);
  const auto table = FieldTable::decode(in);
  FUZZ_CHECK(checked.has_value() == table.has_value());
  if (!table) return 0;
  const std::string once = table->encode();
  FUZZ_CHECK(once.size() == size);
  const auto again = FieldTable::decode(as_bytes(once));
  FUZZ_CHECK(again.has_value());
  FUZZ_CHECK(again->encode() == once);
  size_t differing = 0, bools = 0;
  for (size_t i = 0; i < size; ++i) {
    if (std::to_integer<uint8_t>(in[i]) == static_cast<uint8_t>(once[i])) continue;
    ++differing;
    bools += once[i] == 1 && i > 0 && once[i - 1] == 't';
  }
  FUZZ_CHECK(differing == bools);
  TableReader reader(in);
  FieldView field;
  size_t entries = 0;
  while (reader.next(field)) {
    FUZZ_CHECK(field.name == table->entries.at(entries).first);
    FUZZ_CHECK(field_integer(field) == table->entries[entries].second.integer());
    ++entries;
  }
  FUZZ_CHECK(entries == table->entries.size());
  for (const auto& [name, value] : table->entries) (void)value.to_text();
  return 0;
}
