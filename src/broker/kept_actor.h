#pragma once

#include <optional>

#include "tarrymq/session/vhost_port.h"

namespace tarry {

/// Who declares, for work that goes on later: the caller's login may end before.
struct KeptActor {
  explicit KeptActor(const Actor& a) : connection(a.connection), from(a.from) {
    if (a.login) login = *a.login;
  }
  std::optional<Login> login;
  ConnectionId connection;
  Requester from;
  Actor actor() const { return {login ? &*login : nullptr, connection, from}; }
};

}  // namespace tarry
