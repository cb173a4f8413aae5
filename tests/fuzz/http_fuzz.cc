#include <string>

#include "fuzz/fuzz_support.h"
#include "http/api.h"
#include "http/url.h"
#include "tarrymq/runtime/log.h"
#include "unit/http/fake_management.h"

namespace {

using namespace tarry;

/// Takes an answer at once.
struct Answered final : http::Responder::Sink {
  std::optional<http::Response> response;
  void deliver(http::Response given) override { response = std::move(given); }
  void run_on_server(std::function<void()> work) override { work(); }
};

}  // namespace

/// Input: lines. The first is the method, the second the path with its query, the third the user,
/// the rest the body. Every request that the table of routes lets in is answered, with a status
/// that HTTP has.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static http_test::FakeManagement management;
  static http::ManagementApi api(management);
  static const bool quiet = set_log_level("off");
  FUZZ_CHECK(quiet);
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  const auto line = [&rest] {
    const std::string_view one = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    return std::string(one);
  };
  auto request = std::make_shared<http::Request>();
  request->method_text = line();
  request->method = request->method_text == "PUT"      ? http::Method::put
                    : request->method_text == "POST"   ? http::Method::post
                    : request->method_text == "DELETE" ? http::Method::del
                    : request->method_text == "GET"    ? http::Method::get
                                                       : http::Method::other;
  auto target = http::Target::parse(line());
  if (!target) return 0;
  request->segments = std::move(target->segments);
  request->query = std::move(target->query);
  request->authorization = line() == "tenant" ? "Basic dGVuYW50OnB3" : "Basic Z3Vlc3Q6Z3Vlc3Q=";
  request->host = "localhost";
  request->body = std::string(rest);
  bool admitted = false, answered = false;
  api.admit(*request, [&](std::optional<http::Response> refusal, http::Caller caller) {
    answered = true;
    if (refusal) FUZZ_CHECK(refusal->status >= 200 && refusal->status < 600);
    admitted = !refusal;
    request->caller = std::move(caller);
  });
  FUZZ_CHECK(answered);
  if (!admitted) return 0;
  auto sink = std::make_shared<Answered>();
  api.serve(request, http::Responder(sink));
  FUZZ_CHECK(sink->response && sink->response->status >= 200 && sink->response->status < 600);
  return 0;
}
