#include "http/http_connection.h"

#include <algorithm>
#include <boost/asio/read.hpp>
#include <boost/beast/http/read.hpp>

#include "tarrymq/runtime/limit_hits.h"
#include "tarrymq/runtime/log.h"
#include "tarrymq/runtime/proxy_header.h"
#include "tarrymq/runtime/utf8.h"

namespace tarry::http {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace bhttp = boost::beast::http;
using boost::system::error_code;
using Milliseconds = std::chrono::milliseconds;

namespace {

constexpr uint64_t kDrainedBodyMax =
    64 << 10;  // of a refused request; more of it closes the connection

Method method_of(bhttp::verb verb) {
  switch (verb) {
    case bhttp::verb::get:
    case bhttp::verb::head:
      return Method::get;
    case bhttp::verb::put:
      return Method::put;
    case bhttp::verb::post:
      return Method::post;
    case bhttp::verb::delete_:
      return Method::del;
    default:
      return Method::other;
  }
}

/// What leaves open where a request ends or whom it is for, so that a proxy before us may read it
/// otherwise (RFC 9112, 3.2, 6.1 and 6.3). Null: nothing.
const char* ambiguity_of(const bhttp::request_header<>& head) {
  const size_t encodings = head.count(bhttp::field::transfer_encoding);
  if (encodings > 0) {
    if (head.version() < 11) return "Transfer-Encoding in HTTP/1.0";
    if (encodings > 1 || !beast::iequals(head[bhttp::field::transfer_encoding], "chunked"))
      return "a Transfer-Encoding that is not chunked alone";
  }
  const size_t hosts = head.count(bhttp::field::host);
  if (hosts > 1) return "more than one Host field";
  return hosts == 0 && head.version() >= 11 ? "no Host field" : nullptr;
}

/// After a failure to read a request: its line is still there if it was that.
bool holds_proxy_header(const beast::flat_buffer& buffer) {
  constexpr size_t kTelling = 12;
  const ByteSpan bytes(static_cast<const std::byte*>(buffer.cdata().data()), buffer.size());
  return bytes.size() >= kTelling && begins_like_proxy_header(bytes);
}

template <class Message>
std::string field(const Message& message, std::string_view name) {
  return std::string(message[name]);
}

/// The answer's header, the same for HEAD and the rest.
template <class Answer>
void fill_header(Answer& out, const Response& response, bool keep_alive, uint32_t hsts_s) {
  out.version(11);
  out.result(static_cast<unsigned>(response.status));
  out.set(bhttp::field::server, "TarryMQ");
  if (!response.content_type.empty()) out.set(bhttp::field::content_type, response.content_type);
  out.set("X-Content-Type-Options", "nosniff");
  out.set("X-Frame-Options", "DENY");
  out.set("Referrer-Policy", "no-referrer");
  out.set("Cross-Origin-Resource-Policy", "same-origin");
  out.set(bhttp::field::cache_control, "no-store");
  out.set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'");
  if (hsts_s > 0) out.set("Strict-Transport-Security", "max-age=" + std::to_string(hsts_s));
  for (const auto& [name, value] : response.headers) out.set(name, value);
  out.keep_alive(keep_alive);
}

}  // namespace

/// Answers may come from any thread and after the connection is gone.
struct HttpConnection::Reply final : Responder::Sink {
  explicit Reply(std::shared_ptr<HttpConnection> c) : connection(std::move(c)) {}
  void deliver(Response response) override {
    auto& core = *connection->core_;
    core.post([to = std::move(connection), r = std::move(response)]() mutable {
      to->respond(std::move(r));
    });
  }
  void run_on_server(std::function<void()> work) override {
    connection->core_->post(std::move(work));
  }
  std::shared_ptr<HttpConnection> connection;
};

HttpConnection::HttpConnection(asio::ip::tcp::socket socket, std::shared_ptr<Core> core,
                               const TlsContext* tls)
    : core_(std::move(core)),
      stream_(std::move(socket), tls, core_->handshakes),
      buffer_(core_->settings.header_bytes_max + (64u << 10)),
      place_(core_->waited_for.end()) {
  error_code ignored;  // a peer that is gone already shows at the first read
  (void)stream_.socket().set_option(asio::ip::tcp::no_delay(true), ignored);
}

void HttpConnection::begin(asio::ip::tcp::socket socket, std::shared_ptr<Core> core,
                           const TlsContext* tls) {
  auto* made = new HttpConnection(std::move(socket), core, tls);
  core->connections.insert(made);
  const std::shared_ptr<HttpConnection> connection(
      made, [core](HttpConnection* gone) { core->dispose(gone); });
  connection->start();
}

void HttpConnection::start() {
  keeps_us_waiting();
  error_code gone;  // gone already: no address, not loopback
  const auto peer = stream_.socket().remote_endpoint(gone);
  if (gone) return begin_http();
  peer_host_ = unmapped(peer.address()).to_string();
  peer_loopback_ = unmapped(peer.address()).is_loopback();
  const Networks* sources = core_->settings.proxy_sources;
  if (sources == nullptr || !sources->contains(peer.address())) return begin_http();
  stream_.expires_after(Milliseconds(core_->settings.header_timeout_ms));
  read_proxy_header();
}

/// Never more than surely belongs to it: what follows may be TLS' own.
void HttpConnection::read_proxy_header() {
  const auto so_far = buffer_.cdata();
  const ProxyHeader header =
      parse_proxy_header({static_cast<const std::byte*>(so_far.data()), so_far.size()});
  switch (header.status) {
    case ProxyHeader::Status::malformed:
      log_for("http")->warn("{} refused: bad PROXY header: {}", peer_host_, header.fault);
      return abort();
    case ProxyHeader::Status::complete:
      buffer_.consume(header.size);
      if (header.connection) {
        const auto source = unmapped(header.connection->source.address);
        peer_host_ = source.to_string();
        peer_loopback_ = source.is_loopback();
      }
      return begin_http();
    case ProxyHeader::Status::need_more:
      break;
  }
  asio::async_read(stream_.plain(), buffer_.prepare(header.size - so_far.size()),
                   [self = shared_from_this()](error_code ec, size_t n) {
                     if (ec) return self->abort();
                     self->buffer_.commit(n);
                     self->read_proxy_header();
                   });
}

void HttpConnection::begin_http() {
  if (stream_.has_tls()) return shake_hands();
  wait_for_request();
}

void HttpConnection::shake_hands() {
  stream_.expires_after(Milliseconds(core_->settings.header_timeout_ms));
  stream_.async_handshake([self = shared_from_this()](error_code ec) {
    if (!ec) return self->wait_for_request();
    // Clients that go away in the middle (a browser that asks its user first) are no news.
    log_for("http")->debug("{}: TLS handshake failed: {}",
                           self->peer_host_.empty() ? "a client" : self->peer_host_, ec.message());
    self->abort();
  });
}

void HttpConnection::wait_for_request() {
  busy_ = false;
  request_.reset();
  refusal_.reset();
  if (core_->stopping) return abort();
  keeps_us_waiting();
  if (buffer_.size() > 0) return read_head();
  stream_.expires_after(Milliseconds(core_->settings.idle_timeout_ms));
  stream_.async_read_some(buffer_.prepare(4096),
                          [self = shared_from_this()](error_code ec, size_t n) {
                            if (ec) return self->abort();
                            self->buffer_.commit(n);
                            self->read_head();
                          });
}

void HttpConnection::read_head() {
  busy_ = true;
  parser_.emplace();
  parser_->header_limit(core_->settings.header_bytes_max);
  parser_->body_limit(core_->settings.body_bytes_max);
  stream_.expires_after(Milliseconds(core_->settings.header_timeout_ms));
  bhttp::async_read_header(
      stream_, buffer_, *parser_,
      [self = shared_from_this()](error_code ec, size_t) { self->on_head(ec); });
}

void HttpConnection::refuse_malformed(error_code ec) {
  keep_alive_ = false;
  if (ec == bhttp::error::header_limit) {
    count_limit_hit(Limit::http_header);
    return respond(Response::error(431, "header_too_large", "the request's header is too large"));
  }
  if (ec == bhttp::error::body_limit) {
    count_limit_hit(Limit::http_body);
    return respond(Response::error(
        413, "body_too_large",
        "the request's body is larger than " + std::to_string(body_bytes_max()) + " bytes"));
  }
  if (ec == beast::error::timeout) {
    return abort();  // the stream is closed already
  }
  if (ec.category() == bhttp::make_error_code(bhttp::error::bad_method).category() &&
      ec != bhttp::error::end_of_stream && ec != bhttp::error::partial_message) {
    return respond(Response::bad_request("malformed HTTP request: " + ec.message()));
  }
  abort();
}

void HttpConnection::on_head(error_code ec) {
  keeps_us_waiting_no_more();
  if (ec) {
    head_only_ = false;
    if (!holds_proxy_header(buffer_)) return refuse_malformed(ec);
    const char* const why =
        core_->settings.proxy_sources == nullptr
            ? "a PROXY header, which this port takes from nobody"
            : "a PROXY header from an address that is not in http_proxy_protocol_trusted_sources";
    log_for("http")->warn("{} refused: {}", peer_host_, why);
    keep_alive_ = false;
    return respond(Response::bad_request(why));
  }
  auto& message = parser_->get();
  keep_alive_ = message.keep_alive() && !core_->stopping;
  head_only_ = message.method() == bhttp::verb::head;
  if (const char* what = ambiguity_of(message)) {
    keep_alive_ = false;
    return respond(Response::bad_request(std::string("malformed HTTP request: ") + what));
  }
  request_ = std::make_shared<Request>();
  request_->method = method_of(message.method());
  request_->method_text = std::string(message.method_string());
  auto target = Target::parse(std::string_view(message.target()));
  if (!target) {
    keep_alive_ = false;
    return respond(Response::bad_request(
        "malformed path: it must begin with / and each % be followed by two hex digits"));
  }
  if (request_->method == Method::put && !std::ranges::all_of(target->segments, is_utf8)) {
    // The answers are JSON: what is made under such a name could not be told apart, nor exported.
    keep_alive_ = false;
    return respond(Response::bad_request("malformed path: a name in it is not UTF-8"));
  }
  request_->segments = std::move(target->segments);
  request_->query = std::move(target->query);
  request_->host = field(message, "Host");
  request_->origin = field(message, "Origin");
  request_->fetch_site = field(message, "Sec-Fetch-Site");
  request_->authorization = field(message, "Authorization");
  request_->content_type = field(message, "Content-Type");
  request_->close_reason = field(message, "X-Reason");
  request_->scope_vhost = field(message, "X-Vhost");
  request_->peer_host = peer_host_;
  request_->peer_loopback = peer_loopback_;
  stream_.expires_never();
  core_->api.admit(
      *request_, [self = shared_from_this()](std::optional<Response> refusal, Caller caller) {
        auto& core = *self->core_;
        core.post([self, refusal = std::move(refusal), caller = std::move(caller)]() mutable {
          self->on_admitted(std::move(refusal), std::move(caller));
        });
      });
}

void HttpConnection::on_admitted(std::optional<Response> refusal, Caller caller) {
  if (refusal) {
    refusal_ = std::move(refusal);
    if (parser_->is_done()) return respond(std::move(*refusal_));
    // Its body is read only if that is little; a client that waits for 100-continue sends none.
    const auto length = parser_->content_length();
    const bool waits =
        beast::iequals(std::string_view(parser_->get()[bhttp::field::expect]), "100-continue");
    if (waits || !length || *length > kDrainedBodyMax) {
      keep_alive_ = false;
      return respond(std::move(*refusal_));
    }
    return read_body();
  }
  request_->caller = std::move(caller);
  parser_->body_limit(body_bytes_max());
  if (parser_->content_length().value_or(0) > body_bytes_max())
    return refuse_malformed(bhttp::error::body_limit);
  if (!reserve_body()) {
    count_limit_hit(Limit::http_body);
    keep_alive_ = false;
    return respond(Response::error(503, "busy", "too many large bodies are being read, try again"));
  }
  if (beast::iequals(std::string_view(parser_->get()[bhttp::field::expect]), "100-continue"))
    return send_continue();
  read_body();
}

/// Before the route is known: what the largest may have.
uint64_t HttpConnection::body_bytes_max() const {
  const HttpSettings& settings = core_->settings;
  if (!request_ || request_->may_be_large) return settings.body_bytes_max;
  return std::min(settings.body_bytes_max, settings.small_body_bytes_max);
}

bool HttpConnection::reserve_body() {
  if (parser_->is_done()) return true;
  const auto length = parser_->content_length();
  const uint64_t bytes = length ? *length : body_bytes_max();
  if (bytes <= kSmallBody) return true;
  if (core_->body_bytes_reserved + bytes > std::max(kBodyBudget, core_->settings.body_bytes_max))
    return false;
  reserved_ = bytes;
  core_->body_bytes_reserved += bytes;
  return true;
}

void HttpConnection::release_body() { core_->body_bytes_reserved -= std::exchange(reserved_, 0); }

void HttpConnection::send_continue() {
  continue_ = {};
  continue_.version(11);
  continue_.result(bhttp::status::continue_);
  keeps_us_waiting();
  stream_.expires_after(Milliseconds(core_->settings.body_timeout_ms));
  bhttp::async_write(stream_, continue_, [self = shared_from_this()](error_code ec, size_t) {
    if (ec) return self->abort();
    self->read_body();
  });
}

void HttpConnection::read_body() {
  if (parser_->is_done()) return on_body({});
  keeps_us_waiting();
  stream_.expires_after(Milliseconds(core_->settings.body_timeout_ms));
  bhttp::async_read_some(stream_, buffer_, *parser_,
                         [self = shared_from_this()](error_code ec, size_t) {
                           if (ec) return self->on_body(ec);
                           self->read_body();
                         });
}

void HttpConnection::on_body(error_code ec) {
  keeps_us_waiting_no_more();
  if (ec) return refuse_malformed(ec);
  stream_.expires_never();
  if (refusal_) return respond(std::move(*refusal_));
  request_->body = std::move(parser_->get().body());
  core_->api.serve(request_, Responder(std::make_shared<Reply>(shared_from_this())));
}

void HttpConnection::respond(Response response) {
  release_body();
  keeps_us_waiting();
  keep_alive_ = keep_alive_ && !core_->stopping;
  stream_.expires_after(Milliseconds(core_->settings.body_timeout_ms));
  auto done = [self = shared_from_this()](error_code ec, size_t) { self->on_written(ec); };
  const uint32_t hsts_s = stream_.has_tls() ? core_->settings.hsts_s : 0;
  if (head_only_) {
    head_answer_ = {};
    fill_header(head_answer_, response, keep_alive_, hsts_s);
    head_answer_.content_length(response.body.size());
    return bhttp::async_write(stream_, head_answer_, std::move(done));
  }
  answer_ = {};
  fill_header(answer_, response, keep_alive_, hsts_s);
  answer_.body() = std::move(response.body);
  if (response.status != 204) answer_.content_length(answer_.body().size());
  bhttp::async_write(stream_, answer_, std::move(done));
}

void HttpConnection::on_written(error_code ec) {
  if (ec) return abort();
  if (!keep_alive_) return close_gently();
  wait_for_request();
}

}  // namespace tarry::http
