# The files of the pages as bytes in a source file. Run as a script: cmake -DFOLDER=... -DOUT=... -P pages.cmake.
# One table, sorted by path; its version is a hash of everything, so that browsers may keep what has the version in its path.
cmake_minimum_required(VERSION 3.25)
file(GLOB_RECURSE files RELATIVE ${FOLDER} ${FOLDER}/*.html ${FOLDER}/*.css ${FOLDER}/*.js ${FOLDER}/*.mjs ${FOLDER}/*.svg)
list(SORT files)
set(bytes "")
set(table "")
set(hashes "")
set(n 0)
foreach(file IN LISTS files)
  file(READ ${FOLDER}/${file} hex HEX)
  string(SHA256 hash "${hex}")
  string(APPEND hashes "${file} ${hash}\n")
  string(LENGTH "${hex}" digits)
  math(EXPR size "${digits} / 2")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
  string(APPEND bytes "constexpr unsigned char kBytes${n}[] = {${hex}};\n")
  string(APPEND table "    {\"${file}\", kBytes${n}, ${size}},\n")
  math(EXPR n "${n} + 1")
endforeach()
string(SHA256 version "${hashes}")
string(SUBSTRING "${version}" 0 16 version)
file(WRITE ${OUT} "// Made by cmake/pages.cmake from the files of src/http/pages.
#include \"http/assets.h\"

namespace tarry::http {
namespace {

${bytes}
constexpr AssetBytes kAssets[] = {
${table}};

}  // namespace

std::span<const AssetBytes> page_assets() { return kAssets; }
std::string_view page_assets_version() { return \"${version}\"; }

}  // namespace tarry::http
")
