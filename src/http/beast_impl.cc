// Beast's own code, compiled once (BOOST_BEAST_SEPARATE_COMPILATION). Asio's is in runtime.
#include <boost/beast/src.hpp>
