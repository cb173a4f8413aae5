#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace tarry {

/// What a peer did wrong, as a value: it becomes a channel.close (soft) or connection.close (hard),
/// or a 4xx over HTTP. `text` names the thing, its value and what is allowed; session puts the
/// code's name in front
/// ("PRECONDITION_FAILED - ..."), and fills class and method where they are 0.
struct PeerError {
  uint16_t code = 541;
  bool hard = true;
  std::string text;
  uint16_t class_id = 0;
  uint16_t method_id = 0;

  static PeerError soft(uint16_t code, std::string text) {
    return {code, false, std::move(text), 0, 0};
  }
  static PeerError connection(uint16_t code, std::string text) {
    return {code, true, std::move(text), 0, 0};
  }
  static PeerError access_refused(std::string text) { return soft(403, std::move(text)); }
  static PeerError not_found(std::string text) { return soft(404, std::move(text)); }
  static PeerError resource_locked(std::string text) { return soft(405, std::move(text)); }
  static PeerError precondition_failed(std::string text) { return soft(406, std::move(text)); }
};

}  // namespace tarry
