#include "data/text/stop_words.h"

#include <set>

#include "data/text/vocabulary.h"

namespace pursuit::data {

namespace {

// NLTK's corpus `stopwords`, file `english`, in its order.
constexpr std::string_view list =
    "i me my myself we our ours ourselves you you're you've you'll you'd your yours yourself yourselves "
    "he him his himself she she's her hers herself it it's its itself they them their theirs themselves "
    "what which who whom this that that'll these those am is are was were be been being have has had "
    "having do does did doing a an the and but if or because as until while of at by for with about "
    "against between into through during before after above below to from up down in out on off over "
    "under again further then once here there when where why how all any both each few more most other "
    "some such no nor not only own same so than too very s t can will just don don't should should've "
    "now d ll m o re ve y ain aren aren't couldn couldn't didn didn't doesn doesn't hadn hadn't hasn "
    "hasn't haven haven't isn isn't ma mightn mightn't mustn mustn't needn needn't shan shan't shouldn "
    "shouldn't wasn wasn't weren weren't won won't wouldn wouldn't";

}  // namespace

bool is_stop_word(std::string_view word) {
  static const std::set<std::string_view> words = [] {
    std::set<std::string_view> out;
    std::string_view rest = list;
    for (std::string_view one; !(one = next_word(rest)).empty();) out.insert(one);
    return out;
  }();
  return words.contains(word);
}

}  // namespace pursuit::data
