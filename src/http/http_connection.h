#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <list>
#include <memory>
#include <optional>

#include "http/core.h"
#include "http/http_stream.h"
#include "http/message.h"

namespace tarry::http {

/// One client: reads a request, admits it, reads its body, has it served, writes the answer, and
/// again. One request at a time; what a pipelining client sends ahead waits in the buffer. Server's
/// thread. Kept alive by its pending operation, or by the responder that owes the answer.
class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  /// `tls`: null without.
  static void begin(boost::asio::ip::tcp::socket socket, std::shared_ptr<Core> core,
                    const TlsContext* tls);
  ~HttpConnection();

  /// Closes now if nothing is being answered, else behind the answer.
  void finish();
  void abort();

 private:
  HttpConnection(boost::asio::ip::tcp::socket socket, std::shared_ptr<Core> core,
                 const TlsContext* tls);
  struct Reply;  // the Responder's sink

  void start();
  void read_proxy_header();
  void begin_http();
  void shake_hands();
  void wait_for_request();
  void read_head();
  void on_head(boost::system::error_code ec);
  void on_admitted(std::optional<Response> refusal, Caller caller);
  void read_body();
  void on_body(boost::system::error_code ec);
  uint64_t body_bytes_max() const;
  bool reserve_body();
  void release_body();
  void send_continue();
  void refuse_malformed(boost::system::error_code ec);
  void respond(Response response);
  void on_written(boost::system::error_code ec);
  void close_gently();
  void end_gently();
  void throw_away();
  /// In Core::waited_for, at its end; or not in it.
  void keeps_us_waiting();
  void keeps_us_waiting_no_more();

  std::shared_ptr<Core> core_;
  HttpStream stream_;
  boost::beast::flat_buffer buffer_;
  std::optional<boost::beast::http::request_parser<boost::beast::http::string_body>> parser_;
  std::shared_ptr<Request> request_;
  std::optional<Response> refusal_;  // to be sent once the (small) body is out of the way
  boost::beast::http::response<boost::beast::http::string_body> answer_;
  boost::beast::http::response<boost::beast::http::empty_body> head_answer_;  // to HEAD
  boost::beast::http::response<boost::beast::http::empty_body> continue_;
  std::list<HttpConnection*>::iterator place_;  // in Core::waited_for; its end: none
  std::string peer_host_;                       // the client's, by what its proxy says
  uint64_t reserved_ = 0;
  bool peer_loopback_ = false;
  bool head_only_ = false;
  bool keep_alive_ = false;
  bool busy_ = false;  // a request has begun
};

}  // namespace tarry::http
