#include "tarrymq/amqp/field_table.h"

#include <gtest/gtest.h>

#include "tarrymq/amqp/table_view.h"
#include "unit/amqp/amqp_support.h"

namespace tarry {
namespace {

using test::ExactCopy;
using test::RandomTable;
using test::table_bytes;
using test::table_of_every_type;

std::string nested_arrays(int depth) {
  std::string entries = "\1a";
  for (int inner = depth - 1; inner >= 0; --inner) {
    std::byte size[4];  // of a V, with 5 bytes for each array around it
    store_be(size, static_cast<uint32_t>(1 + 5 * inner));
    entries += "A";
    entries += as_text(size);
  }
  return table_bytes(entries + "V");
}

TEST(FieldTable, EveryTypeIsOnTheWireAsTheTableOfLettersSays) {
  // Written by hand, so that encoder and decoder can't agree on something wrong.
  const std::string wire = table_bytes(std::string_view(
      "\1at\1"
      "\1bb\xff"
      "\1cB\xff"
      "\1ds\xff\xfe"
      "\1eU\xff\xfd"
      "\1fu\xff\xff"
      "\1gI\xff\xff\xff\xff"
      "\1hi\xff\xff\xff\xff"
      "\1il\x80\0\0\0\0\0\0\0"
      "\1jL\xff\xff\xff\xff\xff\xff\xff\xff"
      "\1kf\x3f\xc0\0\0"
      "\1ld\x3f\xf8\0\0\0\0\0\0"
      "\1mD\2\0\0\4\xd2"
      "\1nS\0\0\0\2hi"
      "\1ox\0\0\0\1\0"
      "\1pT\0\0\0\0\x65\x53\xf1\0"
      "\1qV"
      "\1rA\0\0\0\3t\0V"
      "\1sF\0\0\0\4\1zt\1",
      4 + 4 + 4 + 5 + 5 + 5 + 7 + 7 + 11 + 11 + 7 + 11 + 8 + 9 + 8 + 11 + 3 + 10 + 11));
  const auto decoded = FieldTable::decode(as_bytes(wire));
  ASSERT_TRUE(decoded) << decoded.error();
  auto integer = [&](std::string_view name) { return decoded->find(name)->integer(); };
  EXPECT_EQ(decoded->find("a")->boolean(), true);
  EXPECT_EQ(integer("b"), -1);
  EXPECT_EQ(integer("c"), 255);
  EXPECT_EQ(integer("d"), -2);
  EXPECT_EQ(integer("e"), -3);
  EXPECT_EQ(integer("f"), 65535);
  EXPECT_EQ(integer("g"), -1);
  EXPECT_EQ(integer("h"), UINT32_MAX);
  EXPECT_EQ(integer("i"), INT64_MIN);
  EXPECT_EQ(integer("j"), std::nullopt) << "above 2^63-1";
  EXPECT_EQ(decoded->find("j")->to_text(), "18446744073709551615");
  EXPECT_EQ(std::get<float>(decoded->find("k")->value), 1.5F);
  EXPECT_EQ(std::get<double>(decoded->find("l")->value), 1.5);
  EXPECT_EQ(std::get<FieldDecimal>(decoded->find("m")->value), (FieldDecimal{2, 1234}));
  EXPECT_EQ(*decoded->find("n")->text(), "hi");
  EXPECT_EQ(std::get<std::string>(decoded->find("o")->value), std::string(1, '\0'));
  EXPECT_EQ(std::get<int64_t>(decoded->find("p")->value), 0x6553f100);
  EXPECT_EQ(decoded->find("q")->type, 'V');
  ASSERT_EQ(decoded->find("r")->array()->size(), 2U);
  EXPECT_EQ(decoded->find("s")->table()->find("z")->boolean(), true);
  EXPECT_EQ(decoded->encode(), wire);
}

TEST(FieldTable, DecodeAndEncodeGiveTheSameBytesAndValues) {
  const FieldTable table = table_of_every_type();
  const auto back = FieldTable::decode(as_bytes(table.encode()));
  ASSERT_TRUE(back) << back.error();
  EXPECT_EQ(*back, table);
  EXPECT_EQ(back->encode(), table.encode());
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const std::string wire = RandomTable(seed).table().encode();
    const auto decoded = FieldTable::decode(as_bytes(wire));
    ASSERT_TRUE(decoded) << seed << ": " << decoded.error();
    ASSERT_EQ(decoded->encode(), wire) << seed;
  }
}

TEST(FieldTable, EveryCutAndEveryByteBehindIsMalformed) {
  const std::string wire = table_of_every_type().encode();
  for (size_t size = 0; size < wire.size(); ++size) {
    EXPECT_FALSE(FieldTable::decode(ExactCopy(wire.substr(0, size)).span())) << size;
  }
  EXPECT_FALSE(FieldTable::decode(as_bytes(wire + '\0')));
}

TEST(FieldTable, ACutInsideIsMalformedThoughTheOuterLengthFits) {
  const std::string entries = table_of_every_type().encode().substr(4);
  size_t accepted = 0;
  for (size_t size = 0; size < entries.size(); ++size) {
    const ExactCopy copy(table_bytes(entries.substr(0, size)));
    if (FieldTable::decode(copy.span())) ++accepted;
  }
  EXPECT_EQ(accepted, table_of_every_type().entries.size()) << "only between two entries";
}

TEST(FieldTable, AnUnknownTypeLetterIsMalformedAndSaidWithItsPlace) {
  for (int letter = 0; letter < 256; ++letter) {
    const char c = static_cast<char>(letter);
    if (std::string_view("tbBsUuIilLfdDSxTVAF").find(c) != std::string_view::npos) continue;
    const auto result =
        FieldTable::decode(as_bytes(table_bytes(std::string("\1a") + c + std::string(12, '\0'))));
    ASSERT_FALSE(result) << letter;
    EXPECT_EQ(result.error(), "unknown type letter at byte 6");
  }
}

TEST(FieldTable, Depth64IsTheLimit) {
  EXPECT_TRUE(validate_table(as_bytes(nested_arrays(63))));
  const auto deeper = validate_table(as_bytes(nested_arrays(64)));
  ASSERT_FALSE(deeper);
  EXPECT_NE(deeper.error().find("deeper than 64"), std::string::npos) << deeper.error();
  EXPECT_FALSE(validate_table(as_bytes(nested_arrays(20'000)))) << "and no stack overflow";
}

TEST(FieldTable, FindsSetsAndErasesByName) {
  FieldTable t;
  EXPECT_TRUE(t.empty());
  t.set("a", FieldValue::int32(1));
  t.set("b", FieldValue::int32(2));
  t.set("a", FieldValue::text("now a text"));
  ASSERT_EQ(t.entries.size(), 2U);
  EXPECT_EQ(t.entries[0].first, "a") << "replaced in place";
  EXPECT_EQ(*t.find("a")->text(), "now a text");
  t.entries.emplace_back("a", FieldValue::int32(3));
  EXPECT_TRUE(t.erase("a"));
  EXPECT_EQ(t.entries.size(), 1U) << "every one of that name";
  EXPECT_FALSE(t.erase("a"));
  EXPECT_EQ(t.find("a"), nullptr);
}

TEST(FieldTable, TooLongNamesAreCutSoThatWhatIsWrittenIsWellFormed) {
  FieldTable t;
  t.set(std::string(300, 'n'), FieldValue::int32(1));
  const auto back = FieldTable::decode(as_bytes(t.encode()));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->entries[0].first, std::string(255, 'n'));
}

TEST(FieldValue, NumbersAreEquivalentByValueWhateverTheirWidth) {
  const std::vector<FieldValue> fives = {{'b', int64_t{5}}, {'B', int64_t{5}}, {'s', int64_t{5}},
                                         {'U', int64_t{5}}, {'u', int64_t{5}}, {'I', int64_t{5}},
                                         {'i', int64_t{5}}, {'l', int64_t{5}}, {'L', int64_t{5}},
                                         {'f', 5.0F},       {'d', 5.0}};
  for (const auto& a : fives) {
    for (const auto& b : fives) EXPECT_TRUE(a.equivalent(b)) << a.type << b.type;
    EXPECT_FALSE(a.equivalent(FieldValue::int32(6)));
    EXPECT_FALSE(a.equivalent(FieldValue::text("5")));
    EXPECT_FALSE(a.equivalent(FieldValue::timestamp(5)));
    EXPECT_FALSE(a.equivalent(FieldValue::boolean(true)));
  }
}

TEST(FieldValue, LargeNumbersAreComparedWithoutRounding) {
  const FieldValue top{'L', int64_t{-1}};
  EXPECT_FALSE(top.equivalent(FieldValue::int64(-1)));
  EXPECT_TRUE(top.equivalent({'L', int64_t{-1}}));
  const FieldValue odd = FieldValue::int64((int64_t{1} << 53) + 1);
  EXPECT_FALSE(odd.equivalent({'d', 9007199254740992.0}));
  EXPECT_TRUE((FieldValue{'D', FieldDecimal{2, 150}}).equivalent({'D', FieldDecimal{1, 15}}));
}

TEST(FieldValue, TablesAreEquivalentInAnyOrderAndArraysInTheirOwn) {
  FieldTable ab, ba;
  ab.set("a", FieldValue::int32(1));
  ab.set("b", FieldValue::array({FieldValue::int32(1), FieldValue::int32(2)}));
  ba.set("b", FieldValue::array({FieldValue::int64(1), FieldValue::int64(2)}));
  ba.set("a", FieldValue::int64(1));
  EXPECT_TRUE(FieldValue::table(ab).equivalent(FieldValue::table(ba)));
  ba.set("b", FieldValue::array({FieldValue::int64(2), FieldValue::int64(1)}));
  EXPECT_FALSE(ab.equivalent(ba));
  ba.erase("b");
  EXPECT_FALSE(ab.equivalent(ba));
}

TEST(FieldValue, SaysItsTypeAndValueInRabbitMqsWords) {
  EXPECT_EQ(FieldValue::int32(1).type_name(), "signedint");
  EXPECT_EQ(FieldValue::int64(1).type_name(), "long");
  EXPECT_EQ(FieldValue::text("x").type_name(), "longstr");
  EXPECT_EQ(FieldValue::boolean(false).to_text(), "false");
  EXPECT_EQ((FieldValue{'d', 0.1}).to_text(), "0.1");
  EXPECT_EQ(FieldValue::array({FieldValue::int32(1), FieldValue::text("a")}).to_text(), "[1, a]");
}

TEST(TableReader, GivesTheEntriesThatDecodeGives) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    const FieldTable table = RandomTable(seed).table();
    const std::string wire = table.encode();
    TableReader reader(as_bytes(wire));
    FieldView field;
    size_t count = 0;
    while (reader.next(field)) {
      ASSERT_LT(count, table.entries.size());
      EXPECT_EQ(field.name, table.entries[count].first);
      EXPECT_EQ(field_value(field), table.entries[count].second);
      EXPECT_EQ(field_integer(field), table.entries[count].second.integer());
      ++count;
    }
    EXPECT_EQ(count, table.entries.size());
  }
  FieldView none;
  EXPECT_FALSE(TableReader(ByteSpan{}).next(none));
}

}  // namespace
}  // namespace tarry
