// What belongs to the process: backup of the live store, and taking leave of the clients before a
// stop.
#include "http/controllers/common.h"
#include "tarrymq/broker/process_operations.h"

namespace tarry::http {
namespace {

constexpr int64_t kDrainTimeoutMs = 30'000;

Json backup_json(const BackupState& state) {
  static constexpr const char* kPhases[] = {"none", "running", "done", "failed"};
  Json out{{"state", kPhases[static_cast<size_t>(state.phase)]}};
  if (state.phase == BackupState::Phase::none) return out;
  out.update(Json{{"directory", state.directory},
                  {"files", state.files},
                  {"bytes", state.bytes},
                  {"bytes_total", state.bytes_total},
                  {"started_at", state.started_ms}});
  if (state.ended_ms != 0) out["ended_at"] = state.ended_ms;
  if (!state.error.empty()) out["reason"] = state.error;
  return out;
}

Json drain_json(const DrainState& state) {
  static constexpr const char* kPhases[] = {"none", "waiting", "closing", "drained"};
  return Json{{"state", kPhases[static_cast<size_t>(state.phase)]},
              {"connections", state.connections},
              {"closed", state.closed},
              {"left_ms", state.left_ms}};
}

Response start_backup(ProcessOperations& process, const Request& request) {
  auto body = body_object(request);
  if (!body) return body.error();
  BodyReader reader(*body);
  const std::string directory = reader.required_text("directory");
  if (!reader.reason() && !directory.starts_with('/')) {
    reader.fail("'directory' must be an absolute path on the broker's machine, not '" + directory +
                "'");
  }
  if (reader.reason()) return Response::bad_request(*reader.reason());
  if (auto begun = process.start_backup(directory); !begun)
    return Response::error(409, "conflict", begun.error());
  return Response::json(backup_json(process.backup()), 202);
}

Response start_drain(ProcessOperations& process, const Request& request) {
  auto body = body_object(request);
  if (!body) return body.error();
  BodyReader reader(*body);
  const int64_t timeout_ms = reader.integer("timeout_ms", kDrainTimeoutMs, 0, 86'400'000);
  if (reader.reason()) return Response::bad_request(*reader.reason());
  process.start_drain(static_cast<uint64_t>(timeout_ms));
  return Response::json(drain_json(process.drain()), 202);
}

}  // namespace

/// Without a process around the broker (in tests) these are 404.
void add_process_routes(Router& router, Context& context) {
  const auto with_process = [&router, &context](Method method, const char* path, Access access,
                                                auto handler) {
    router.add_direct(method, path, access, [&context, handler](const Request& request) {
      return context.process == nullptr ? Response::not_found()
                                        : handler(*context.process, request);
    });
  };
  with_process(Method::post, "/api/backup", Access::administrator, start_backup);
  with_process(Method::get, "/api/backup", Access::monitoring,
               [](ProcessOperations& process, const Request&) {
                 return Response::json(backup_json(process.backup()));
               });
  with_process(Method::post, "/api/drain", Access::administrator, start_drain);
  with_process(Method::get, "/api/drain", Access::monitoring,
               [](ProcessOperations& process, const Request&) {
                 return Response::json(drain_json(process.drain()));
               });
}

}  // namespace tarry::http
