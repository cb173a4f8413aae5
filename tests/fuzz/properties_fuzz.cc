#include <string>

#include "fuzz/fuzz_support.h"
#include "tarrymq/amqp/properties.h"
#include "tarrymq/amqp/table_view.h"

/// Whatever a client may publish can be rewritten in each way that the broker does it, and is
/// well-formed afterwards.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tarry;
  const ByteSpan in = fuzz::input(data, size);
  const auto view = PropertiesView::parse(in);
  if (!view) {
    FUZZ_CHECK(!view.error().empty());
    return 0;
  }
  FieldTable headers;
  if (!view->headers.empty()) {
    auto decoded = FieldTable::decode(view->headers);
    FUZZ_CHECK(decoded.has_value());
    headers = *decoded;
  }
  FUZZ_CHECK(view->has_cc == (headers.find("CC") != nullptr));
  FUZZ_CHECK(view->has_delivery_count == (headers.find("x-delivery-count") != nullptr));

  std::string counted;
  append_with_delivery_count(counted, in, *view, 7);
  const auto counted_view = PropertiesView::parse(as_bytes(counted));
  FUZZ_CHECK(counted_view.has_value() && counted_view->body_size == view->body_size);
  const auto count = find_field(counted_view->headers, "x-delivery-count");
  FUZZ_CHECK(count && count->type == 'l' && field_integer(*count) == 7);

  std::string stripped;
  append_without_header(stripped, as_bytes(counted), *counted_view, "x-delivery-count");
  const auto stripped_view = PropertiesView::parse(as_bytes(stripped));
  FUZZ_CHECK(stripped_view.has_value() && !stripped_view->has_delivery_count);
  if (!view->headers.empty() && !view->has_delivery_count) FUZZ_CHECK(stripped == as_text(in));

  const std::string dead = without_expiration(in, headers);
  const auto dead_view = PropertiesView::parse(as_bytes(dead));
  FUZZ_CHECK(dead_view.has_value() && !dead_view->expiration && dead_view->app_id == view->app_id);
  FUZZ_CHECK(PropertiesView::parse(as_bytes(with_headers(in, {})))->headers.empty());
  return 0;
}
