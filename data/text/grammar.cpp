#include "data/text/grammar.h"

#include <cmath>
#include <cstring>
#include <span>

#include "engine/base/random.h"

namespace pursuit::data {
namespace {

struct Option {
  const char* text;
  double weight;
};

constexpr const char* names[] = {"anna",  "boris", "clara",  "david", "emma", "felix", "greta", "hugo",
                                 "irene", "jonas", "karoly", "lucia", "mara", "nils",  "olga",  "pavel"};
constexpr int64_t name_count = std::size(names);
constexpr Option verbs[] = {{"gave", 4}, {"sold", 2}, {"lent", 1}, {"showed", 1}};
constexpr Option determiners[] = {{"a", 4}, {"the", 2}, {"some", 1}, {"three", 1}};
constexpr int first_plural = 2;  // index into determiners
constexpr Option adjective_counts[] = {{"", 4}, {"", 3}, {"", 1}};
// "<unk>" occurs as a rare word, as in published data sets, so that the vocabulary contains it.
constexpr Option adjectives[] = {{"small", 4}, {"red", 3},   {"old", 2},
                                 {"new", 2},   {"heavy", 1}, {"<unk>", 1}};
constexpr Option nouns[] = {{"box", 8}, {"lamp", 6},  {"book", 5},  {"coat", 4},  {"key", 3},
                            {"map", 2}, {"clock", 1}, {"flute", 1}, {"chair", 1}, {"stamp", 1}};
constexpr Option endings[] = {{"thanked", 3}, {"saw", 2}};

std::string plural(const std::string& noun) { return noun + (noun.back() == 'x' ? "es" : "s"); }

double total(std::span<const Option> options) {
  double sum = 0;
  for (const Option& o : options) sum += o.weight;
  return sum;
}

// The expected value of f over the options.
template <class F> double mean(std::span<const Option> options, const F& f) {
  double sum = 0;
  for (size_t i = 0; i < options.size(); ++i) sum += options[i].weight * f(i);
  return sum / total(options);
}

double entropy(std::span<const Option> options) {
  const double all = total(options);
  return mean(options, [&](size_t i) { return -std::log(options[i].weight / all); });
}

// Expected bytes of the word and the space before it.
double bytes(std::span<const Option> options) {
  return mean(options, [&](size_t i) { return double(std::strlen(options[i].text) + 1); });
}

size_t draw(std::span<const Option> options, Random& random) {
  double left = random.uniform() * total(options);
  for (size_t i = 0; i + 1 < options.size(); ++i)
    if ((left -= options[i].weight) < 0) return i;
  return options.size() - 1;
}

std::string line(Random& random) {
  const int64_t giver = random.below(name_count);
  const int64_t other = random.below(name_count - 1), receiver = other + (other >= giver);
  std::string text =
      std::string(names[giver]) + " " + verbs[draw(verbs, random)].text + " " + names[receiver];
  const size_t determiner = draw(determiners, random);
  text += std::string(" ") + determiners[determiner].text;
  for (size_t n = draw(adjective_counts, random); n > 0; --n)
    text += std::string(" ") + adjectives[draw(adjectives, random)].text;
  const bool many = determiner >= first_plural;
  std::string noun = nouns[draw(nouns, random)].text;
  if (many) noun = plural(noun);
  text += " " + noun + " and ";
  if (draw(endings, random) == 0)
    text += std::string(names[receiver]) + " thanked " + names[giver] + " for the " + noun;
  else
    text += std::string(names[giver]) + " saw that the " + noun + (many ? " were " : " was ") +
            adjectives[draw(adjectives, random)].text;
  return text + " .\n";
}

std::vector<TextFile> lines(int64_t count, uint64_t stream, const char* name) {
  Random random(0, stream);
  const auto text = std::make_shared<std::string>();
  for (int64_t i = 0; i < count; ++i) *text += line(random);
  return {{name, *text, 0, text}};
}

}  // namespace

GrammarFacts grammar_facts() {
  const double adjective = mean(adjective_counts, [](size_t n) { return double(n); });
  const double thanks = endings[0].weight / total(endings), sees = 1 - thanks;
  const double many = mean(determiners, [](size_t i) { return double(i >= first_plural); });
  double name = 0;
  for (const char* n : names) name += double(std::strlen(n) + 1) / double(name_count);
  const double noun = mean(nouns, [&](size_t i) {
    const std::string one = nouns[i].text;
    return double(one.size() + 1) + many * double(plural(one).size() - one.size());
  });
  GrammarFacts facts;
  facts.nats = std::log(double(name_count)) + std::log(double(name_count - 1)) + entropy(verbs) +
               entropy(determiners) + entropy(adjective_counts) + adjective * entropy(adjectives) +
               entropy(nouns) + entropy(endings) + sees * entropy(adjectives);
  // NAME VERB NAME DET ADJ* NOUN and ... . <eos>, with "NAME thanked NAME for the NOUN" or
  // "NAME saw that the NOUN was ADJ".
  facts.words = 8 + adjective + thanks * 6 + sees * 7;
  const auto literal = [](const char* text) { return double(std::strlen(text)); };
  facts.bytes = 2 * name + bytes(verbs) + bytes(determiners) + adjective * bytes(adjectives) + noun +
                literal(" and") + thanks * (2 * name + literal(" thanked for the") + noun) +
                sees * (name + literal(" saw that the") + noun + literal(" was") + many + bytes(adjectives)) +
                literal(" .");  // the newline replaces the first word's space
  // Beside the options, a noun's plural included: and, thanked, for, saw, that, was, were, . and <eos>.
  facts.vocabulary = int64_t(std::size(names) + std::size(verbs) + std::size(determiners) +
                             std::size(adjectives) + 2 * std::size(nouns) + 9);
  return facts;
}

TextSource grammar_text() {
  TextSource source;
  source.layout = TextSource::Layout::grammar;
  source.train = lines(20000, 0, "built-in grammar, train");
  source.valid = lines(1000, 1, "built-in grammar, valid");
  source.test = lines(1000, 2, "built-in grammar, test");
  return source;
}

}  // namespace pursuit::data
