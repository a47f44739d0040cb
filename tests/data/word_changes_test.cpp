#include "data/text/word_changes.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "data/text/stop_words.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "tests/needs.h"

using namespace pursuit;
using namespace pursuit::data;

TEST_CASE("word swap: one word a line at least, never a stop word, the rest untouched") {
  const std::string text = " \n the cat 's <unk> , sat \n = Title = \nof the and\n";
  const ChangedWords swap = change_words(text, {});
  CHECK(swap.changed == 2);
  CHECK(swap.text.find(" = AAA = \n") != std::string::npos);
  CHECK(swap.text.substr(swap.text.size() - 11) == "of the and\n");
  const std::set<std::string> possible = {" \n the AAA 's <unk> , sat \n = AAA = \nof the and\n",
                                          " \n the cat 's <AAA> , sat \n = AAA = \nof the and\n",
                                          " \n the cat 's <unk> , AAA \n = AAA = \nof the and\n"};
  std::set<std::string> seen;
  for (uint64_t seed = 0; seed < 50; ++seed) seen.insert(change_words(text, {.seed = seed}).text);
  CHECK(seen == possible);
  CHECK(change_words(text, {.seed = 7}).text == change_words(text, {.seed = 7}).text);

  std::string line;
  for (int i = 0; i < 200; ++i) line += "word" + std::to_string(i) + " ";
  CHECK(change_words(line, {}).changed == 3);  // floor(0.015 * 200)
  CHECK(change_words(line, {.rate = 1}).changed == 200);
  CHECK(change_words("the of\n", {.keep_stop_words = false}).changed == 1);
  CHECK_THROWS_AS(change_words(line, {.rate = 0}), Error);
  CHECK_THROWS_AS(change_words(line, {.rate = NAN}), Error);
}

TEST_CASE("word swap: NLTK's stop words stay, compared with case") {
  for (const char* word : {"the", "you're", "you've", "ain", "aren't", "ma", "wouldn't", "yourselves", "i"}) {
    CAPTURE(word);
    CHECK(is_stop_word(word));
    CHECK(change_words(word, {}).text == std::string(word) + "\n");
  }
  // Words that only look like it.
  for (const char* word : {"The", "I", "THE", "could", "would", "us", "", "the of"})
    CHECK(!is_stop_word(word));
  CHECK(change_words("The\n", {}).text == "AAA\n");
  CHECK(change_words("the\n", {}).text == "the\n");
  CHECK(change_words("could\n", {}).text == "AAA\n");
}

TEST_CASE("word swap: words are of letters and digits of any script, and their tokens are counted") {
  const auto all = [](const std::string& line) { return change_words(line, {.rate = 1}).text; };
  CHECK(all("caf\u00e9 \u2013 \u6f22\u5b57 \u2026 \u0416\n") == "AAA \u2013 AAA \u2026 AAA\n");
  CHECK(all("\u00a3 5 \u2019 s\u2019t\n") == "\u00a3 AAA \u2019 s\u2019t\n");  // s and t are stop words
  CHECK(all("twenty-one ' x_y* @-@ <unk> a/b\n") == "AAA ' AAA @-@ <AAA> a/AAA\n");
  const ChangedWords swap = change_words("cat <unk> dog/house cat\n", {.rate = 1});
  CHECK(swap.text == "AAA <AAA> AAA/AAA AAA\n");
  CHECK(swap.tokens == std::map<std::string, int64_t>{{"AAA", 2}, {"<AAA>", 1}, {"AAA/AAA", 2}});
  CHECK(swap.changed == 5);
}

DATA_TEST_CASE("word swap: the stop words are NLTK's, all of them", "../specs/stop-words-nltk-english.txt") {
  std::ifstream file(shared_data("../specs/stop-words-nltk-english.txt"));
  int64_t count = 0;
  for (std::string word; std::getline(file, word);) {
    CAPTURE(word);
    CHECK(is_stop_word(word));
    ++count;
  }
  CHECK(count == 179);
}

TEST_CASE("character noise: one edit of a chosen word, each kind, the same words as a swap") {
  const auto noisy = [](const std::string& line, uint64_t seed, double rate = 1) {
    return change_words(line, {.change = WordChange::noise, .rate = rate, .seed = seed});
  };
  std::map<std::string, int> kinds;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const ChangedWords changed = noisy("abcd\n", seed);
    CHECK(changed.changed == 1);
    const std::string word = changed.text.substr(0, changed.text.size() - 1);
    CHECK(word != "abcd");
    if (word.size() == 3)
      ++kinds["removed"];
    else if (word.size() == 5)
      ++kinds["inserted"];
    else if (std::multiset<char>(word.begin(), word.end()) == std::multiset<char>{'a', 'b', 'c', 'd'})
      ++kinds["moved"];
    else
      ++kinds["replaced"];
    CHECK(changed.tokens == std::map<std::string, int64_t>{{word, 1}});
  }
  CHECK(kinds.size() == 4);
  for (const auto& kind : kinds)
    CHECK_MESSAGE(std::abs(kind.second - 100) < 40, kind.first);  // 4.6 deviations
  // A word of one character, of equal ones, and of characters of several bytes.
  for (uint64_t seed = 0; seed < 60; ++seed) {
    for (const char* word : {"x", "zz", "\u6f22\u5b57"}) {
      const std::string text = noisy(word, seed).text;
      CHECK(text != std::string(word) + "\n");
      CHECK(text.size() > 1);
      CHECK(is_utf8(text));
    }
  }
  // The rate and the stop words are those of the swap, and so is the choice.
  std::string line;
  for (int i = 0; i < 100; ++i) line += "the word" + std::to_string(i) + " ";
  const ChangedWords some = noisy(line, 3, 0.1), swapped = change_words(line, {.rate = 0.1, .seed = 3});
  CHECK(some.changed == 20);
  CHECK(some.words == 200);
  std::istringstream before(line), after(some.text), as_swap(swapped.text);
  for (std::string a, b, s; before >> a && after >> b && as_swap >> s;) {
    CHECK((a == b) == (a == s));
    if (a == "the") CHECK(b == a);
  }
}

TEST_CASE("deleted words: gone with one space, the rest untouched") {
  const auto without = [](const std::string& line, double rate = 1) {
    return change_words(line, {.change = WordChange::deletion, .rate = rate});
  };
  CHECK(without(" cat , dog \n").text == " , \n");
  CHECK(without("cat the dog\n").text == "the \n");
  CHECK(without("<unk> a/cat (dog)\n").text == "<> a/ ()\n");
  CHECK(without("cat\ndog\n").text == "\n\n");
  const ChangedWords changed = without("one cat sat\n", 0.5);
  CHECK(changed.words == 3);
  CHECK(changed.changed == 1);
  CHECK(changed.tokens.empty());
  const std::set<std::string> possible = {"cat sat\n", "one sat\n", "one cat \n"};
  CHECK(possible.contains(changed.text));
}
