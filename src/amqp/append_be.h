#pragma once
// How the writers of properties and tables append integers.
#include <string>

#include "tarrymq/runtime/bytes.h"

namespace tarry {

/// Appends `value` in network byte order (AMQP 4.2.5).
template <class Integer>
void append_be(std::string& out, Integer value) {
  std::byte bytes[sizeof value];
  store_be(bytes, value);
  out.append(as_text(bytes));
}

}  // namespace tarry
