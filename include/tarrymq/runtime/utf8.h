#pragma once

#include <cstddef>
#include <string_view>

namespace tarry {

/// Whether these bytes are text as RFC 3629 has it: nothing overlong, no surrogates, nothing cut.
inline bool is_utf8(std::string_view text) {
  const auto octet = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  for (size_t i = 0; i < text.size();) {
    const unsigned char lead = octet(i);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    const size_t more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
    if (lead < 0xc2 || lead > 0xf4 || text.size() - i <= more) return false;
    const unsigned char second = octet(i + 1);
    const unsigned char least = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    const unsigned char most = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (second < least || second > most) return false;
    for (size_t n = 2; n <= more; ++n) {
      if ((octet(i + n) & 0xc0) != 0x80) return false;
    }
    i += more + 1;
  }
  return true;
}

}  // namespace tarry
