#pragma once

#include <cstdint>
#include <string>

namespace tarry {

/// Whether a listener could bind there now: "" or the cause ("Address already in use", "not a
/// numeric address"). What is bound for the probe is given up at once.
std::string probe_port(const std::string& host, uint16_t port);

}  // namespace tarry
