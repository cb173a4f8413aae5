#include "ctl/client.h"

#include <curl/curl.h>

#include <charconv>

namespace ctl {
namespace {

size_t take(char* bytes, size_t size, size_t count, void* into) {
  static_cast<std::string*>(into)->append(bytes, size * count);
  return size * count;
}

int report(void* progress, curl_off_t down_total, curl_off_t down, curl_off_t up_total,
           curl_off_t up) {
  const auto& tell = *static_cast<Client::Progress*>(progress);
  if (!tell) return 0;
  const bool sending = up_total > 0 && up < up_total;
  tell(static_cast<uint64_t>(sending ? up : down),
       static_cast<uint64_t>(sending ? up_total : down_total));
  return 0;
}

std::string decode(const std::string& text) {
  int size = 0;
  char* plain = curl_easy_unescape(nullptr, text.c_str(), static_cast<int>(text.size()), &size);
  std::string out(plain, static_cast<size_t>(size));
  curl_free(plain);
  return out;
}

/// The broker's own words, or what there is of them.
std::string reason_in(const Answer& answer) {
  const Json body = Json::parse(answer.body, nullptr, false);
  if (body.is_object()) {
    std::string reason = body.value("reason", "");
    if (!reason.empty() && reason != "Not Found") return reason;
  }
  if (answer.status == 404) return "not found";
  return "HTTP status " + std::to_string(answer.status);
}

/// As it stands in a URL: an IPv6 address in brackets.
std::string url_host(const std::string& host) {
  return host.find(':') != std::string::npos && host[0] != '[' ? "[" + host + "]" : host;
}

/// What to look at when no answer came.
std::string advice(CURLcode failure, const Target& target) {
  if (failure == CURLE_PEER_FAILED_VERIFICATION)
    return "--cacert FILE says whose certificates to trust, --insecure does not ask";
  if (failure == CURLE_SSL_CACERT_BADFILE)
    return "Is there a certificate in " + target.ca_file + "? (--cacert)";
  if (target.scheme == "https") return "Does it run, and is this its https_port? (--uri)";
  return "Does it run, and is this its http_port? (--uri)";
}

/// What a path names that is not there, in words.
std::string missing_thing(const std::string& path) {
  std::vector<std::string> parts;  // of the path behind /api/, decoded
  for (size_t at = 0; at < path.size() && path[at] == '/';) {
    const size_t end = std::min(path.find_first_of("/?", at + 1), path.size());
    parts.push_back(decode(path.substr(at + 1, end - at - 1)));
    at = end;
  }
  if (parts.size() < 3 || parts[0] != "api") return "not found: " + path;
  const std::string& kind = parts[1];
  for (const auto& [list, thing] :
       {std::pair{"queues", "queue"}, std::pair{"exchanges", "exchange"},
        std::pair{"policies", "policy"}, std::pair{"operator-policies", "operator policy"}}) {
    if (kind == list && parts.size() == 3) return "no vhost '" + parts[2] + "'";
    if (kind == list)
      return std::string("no ") + thing + " '" + parts[3] + "' in vhost '" + parts[2] + "'";
  }
  for (const auto& [list, thing] :
       {std::pair{"connections", "connection"}, std::pair{"users", "user"},
        std::pair{"vhosts", "vhost"}, std::pair{"bindings", "vhost"},
        std::pair{"consumers", "vhost"}}) {
    if (kind == list) return std::string("no ") + thing + " '" + parts[2] + "'";
  }
  return "not found: " + path;
}

}  // namespace

Json Answer::json() const {
  if (body.empty()) return nullptr;
  Json value = Json::parse(body, nullptr, false);
  if (value.is_discarded())
    throw Failure{kExitRefused, "the answer is no JSON: is this the HTTP API of a broker?"};
  return value;
}

void Target::read_uri(const std::string& uri) {
  const auto bad = [&] {
    return Failure{kExitUsage, "--uri '" + uri + "': expected http://user:password@host:port"};
  };
  std::string rest = uri;
  if (const size_t at = rest.find("://"); at != std::string::npos) {
    scheme = rest.substr(0, at);
    rest = rest.substr(at + 3);
  }
  if (scheme != "http" && scheme != "https") throw bad();
  rest.resize(std::min(rest.size(), rest.find('/')));
  if (const size_t at = rest.rfind('@'); at != std::string::npos) {
    const std::string who = rest.substr(0, at);
    rest = rest.substr(at + 1);
    const size_t colon = who.find(':');
    user = decode(who.substr(0, colon));
    if (colon != std::string::npos) password = decode(who.substr(colon + 1));
  }
  const size_t colon = rest.rfind(':');
  if (colon != std::string::npos && rest.find(']', colon) == std::string::npos) {
    const auto [end, error] =
        std::from_chars(rest.data() + colon + 1, rest.data() + rest.size(), port);
    if (error != std::errc{} || end != rest.data() + rest.size() || port < 1 || port > 65535)
      throw bad();
    rest.resize(colon);
  }
  if (!rest.empty()) host = rest;
}

Client::Client(Target target) : target_(std::move(target)) {
  curl_global_init(CURL_GLOBAL_DEFAULT);
  curl_ = curl_easy_init();
  if (curl_ == nullptr) throw Failure{kExitUnreachable, "cannot start the HTTP library"};
}

Client::~Client() {
  curl_easy_cleanup(curl_);
  curl_global_cleanup();
}

Answer Client::try_call(const std::string& method, const std::string& path,
                        const std::string& body) {
  Answer answer;
  const std::string at =
      target_.scheme + "://" + url_host(target_.host) + ":" + std::to_string(target_.port);
  const std::string url = at + path;
  curl_easy_reset(curl_);
  const auto set = [this](CURLoption option, auto value) {
    curl_easy_setopt(curl_, option, value);
  };
  char trouble[CURL_ERROR_SIZE] = "";  // says more than the code of the failure
  set(CURLOPT_ERRORBUFFER, trouble);
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_CUSTOMREQUEST, method.c_str());
  if (!target_.user.empty()) {
    set(CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
    set(CURLOPT_USERNAME, target_.user.c_str());
    set(CURLOPT_PASSWORD, target_.password.c_str());
  }
  set(CURLOPT_WRITEFUNCTION, &take);
  set(CURLOPT_WRITEDATA, static_cast<void*>(&answer.body));
  set(CURLOPT_CONNECTTIMEOUT, 10L);
  set(CURLOPT_TIMEOUT, static_cast<long>(target_.timeout_s));
  set(CURLOPT_NOPROXY, "*");  // a broker is not reached through a proxy of the web
  set(CURLOPT_PATH_AS_IS, 1L);
  if (!target_.ca_file.empty()) set(CURLOPT_CAINFO, target_.ca_file.c_str());
  if (target_.insecure) set(CURLOPT_SSL_VERIFYPEER, 0L), set(CURLOPT_SSL_VERIFYHOST, 0L);
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFOFUNCTION, &report);
  set(CURLOPT_XFERINFODATA, static_cast<void*>(&progress_));
  curl_slist* headers = curl_slist_append(nullptr, "Content-Type: application/json");
  headers = curl_slist_append(headers, "Expect:");
  set(CURLOPT_HTTPHEADER, headers);
  if (!body.empty() || method == "PUT" || method == "POST") {
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
    set(CURLOPT_POSTFIELDS, body.data());
  }
  const CURLcode done = curl_easy_perform(curl_);
  set(CURLOPT_ERRORBUFFER, static_cast<char*>(nullptr));  // it ends with this call
  curl_slist_free_all(headers);
  if (done == CURLE_OPERATION_TIMEDOUT) {
    throw Failure{kExitUnreachable, "no answer from " + at + " within " +
                                        std::to_string(target_.timeout_s) + " s (--timeout)"};
  }
  if (done != CURLE_OK) {
    const std::string why = trouble[0] != '\0' ? trouble : curl_easy_strerror(done);
    throw Failure{kExitUnreachable, "cannot reach the broker's HTTP API at " + at + ": " + why +
                                        ". " + advice(done, target_)};
  }
  long status = 0;
  curl_easy_getinfo(curl_, CURLINFO_RESPONSE_CODE, &status);
  answer.status = static_cast<int>(status);
  return answer;
}

void Client::fail(const std::string& method, const std::string& path, const Answer& answer) const {
  const std::string reason = reason_in(answer);
  if (answer.status == 401) {
    throw Failure{kExitForbidden,
                  "log-in of user '" + target_.user + "' refused (--user, --password, --uri)"};
  }
  if (answer.status == 403)
    throw Failure{kExitForbidden, "not allowed for user '" + target_.user + "': " + reason};
  if (answer.status == 404)
    throw Failure{kExitNotFound, reason == "not found" ? missing_thing(path) : reason};
  if (answer.status == 405)
    throw Failure{kExitRefused, method + " " + path + ": this broker does not have that"};
  throw Failure{kExitRefused, reason};
}

Answer Client::call(const std::string& method, const std::string& path, const std::string& body) {
  Answer answer = try_call(method, path, body);
  if (answer.status < 200 || answer.status > 299) fail(method, path, answer);
  return answer;
}

Json Client::get(const std::string& path, const Query& query) {
  return call("GET", with_query(path, query)).json();
}
Json Client::send(const std::string& method, const std::string& path, const Json& body) {
  return call(method, path, body.dump(-1, ' ', false, Json::error_handler_t::replace)).json();
}
void Client::remove(const std::string& path) { (void)call("DELETE", path); }

std::string encode(std::string_view part) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : part) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || (c == '.' && part != "." && part != "..") ||
                       c == '~';
    if (plain) {
      out.push_back(c);
    } else {
      out.push_back('%');
      out.push_back(kHex[byte >> 4]);
      out.push_back(kHex[byte & 15]);
    }
  }
  return out;
}

std::string with_query(std::string path, const Query& query) {
  char separator = path.find('?') == std::string::npos ? '?' : '&';
  for (const auto& [name, value] : query) {
    path += separator + encode(name) + "=" + encode(value);
    separator = '&';
  }
  return path;
}

}  // namespace ctl
