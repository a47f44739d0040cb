// A checkpoint's config is text from a file. Whatever it says, loading either gives the model that was saved
// or ends with one error that names the file, and takes no more memory than the file's tensors do.
#include <doctest/doctest.h>

#include "apps/classify/pipeline.h"
#include "apps/lm/config.h"
#include "apps/run/fields.h"
#include "apps/segment/predictor.h"
#include "apps/study/loaded_model.h"
#include "engine/core/memory.h"

using namespace pursuit;
using Json = nlohmann::ordered_json;

namespace {

struct Classify {
  using Model = classify::Model;
  static classify::Config config() {
    classify::Config c;
    c.image_size = 8;
    c.patch = 4;
    c.dim = 8;
    c.depth = 2;
    c.heads = 2;
    c.channels = 1;
    c.classes = {"cat", "dog"};
    c.mean = c.std = {0.5};
    return c;
  }
  static int64_t load(const apps::Checkpoint& checkpoint) {
    const auto m = apps::load_model<classify::Config>(checkpoint, {.device = "cpu"});
    classify::look_at(m, data::Image(9, 12, 3));
    return m.model->parameter_count();
  }
};

struct Lm {
  using Model = nn::TransformerLm;
  static lm::Config config() {
    lm::Config c;
    c.dim = 8;
    c.depth = 2;
    c.heads = 2;
    c.hidden = 16;
    c.context = 8;
    c.cutoffs = {2};
    c.tied = false;
    c.div_value = 2;
    c.vocabulary = "<eos>\na\nb\nc\n";
    return c;
  }
  static int64_t load(const apps::Checkpoint& checkpoint) {
    const auto m = apps::load_model<lm::Config>(checkpoint, {.device = "cpu"});
    CHECK(lm::vocabulary(m.config).size() == 4);
    m.model->next_logits(from_vector(std::vector<int32_t>{1, 2, 3}, {1, 3}));
    return m.model->parameter_count();
  }
};

struct Segment {
  using Model = nn::Segmenter;
  static segment::Config config() {
    segment::Config c;
    c.height = 16;
    c.width = 24;
    c.dim = 8;
    c.depth = 2;
    c.heads = 2;
    c.decoder = nn::SegmenterDecoder::mask;
    c.decoder_depth = 1;
    c.classes = {"road", "sky"};
    c.colours = {{1, 2, 3}, {4, 5, 6}};
    c.mean = c.std = {0.5, 0.5, 0.5};
    return c;
  }
  static int64_t load(const apps::Checkpoint& checkpoint) {
    const auto m = apps::load_model<segment::Config>(checkpoint, {.device = "cpu"});
    segment::predictor_of(*m.model, m.config).classes_of(data::Image(20, 30, 3));
    return m.model->parameter_count();
  }
};

// A checkpoint of the model that `config` says, whose own config says `written`.
template <class App, class Config> apps::Checkpoint checkpoint_of(const Config& config, const Json& written) {
  apps::Checkpoint checkpoint;
  checkpoint.path = "run/checkpoint.safetensors";
  checkpoint.config = written;
  const typename App::Model model(model_config(config));
  for (const nn::NamedTensor& p : model.parameters()) checkpoint.file.tensors[p.name] = p.tensor->detach();
  return checkpoint;
}

// Limits memory to 64 MiB more than now during its lifetime.
struct MemoryLimit {
  MemoryLimit() { set_memory_limit(cpu, memory_stats().reserved + (int64_t(64) << 20)); }
  ~MemoryLimit() { set_memory_limit(cpu, 0); }
};

template <class App> std::string error_of(const apps::Checkpoint& checkpoint) {
  try {
    App::load(checkpoint);
  } catch (const OutOfMemory& e) {
    FAIL("took memory: " << std::string(e.what()));
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

}  // namespace

TEST_CASE_TEMPLATE("untrusted config: every field at values that no run has", App, Classify, Lm, Segment) {
  const auto config = App::config();
  const Json good = apps::fields_to_json(config);
  apps::Checkpoint checkpoint = checkpoint_of<App>(config, good);
  const int64_t parameters = App::load(checkpoint);

  const std::vector<Json> values = {-1,
                                    0,
                                    1,
                                    2,
                                    7,
                                    1.9,
                                    -0.5,
                                    1e9,
                                    1e300,
                                    1000000000,
                                    2147483647,
                                    INT64_MAX,
                                    INT64_MIN,
                                    UINT64_MAX,
                                    nullptr,
                                    true,
                                    "",
                                    "none",
                                    "\x01\n",
                                    "\xff",
                                    Json::array(),
                                    Json::array({-1}),
                                    Json::array({1e300, "x"}),
                                    Json::object()};
  int refused = 0;
  const MemoryLimit limit;
  for (const auto& [key, was] : good.items())
    for (const Json& value : values) {
      const std::string& field = key;
      checkpoint.config = good;
      checkpoint.config[field] = value;
      INFO(field << " = " << value.dump(-1, ' ', true, Json::error_handler_t::replace));
      const std::string error = error_of<App>(checkpoint);
      refused += !error.empty();
      if (error.empty())
        CHECK(App::load(checkpoint) == parameters);
      else
        CHECK(contains(error, checkpoint.path));
      if (value.type() != was.type() && !(value.is_number() && was.is_number()))
        CHECK(contains(error, field));
    }
  CHECK(refused > 100);
}

TEST_CASE("untrusted config: sizes that are not those of the tensors are named") {
  const auto error_with = []<class App>(App, const char* field, const Json& value) {
    Json bad = apps::fields_to_json(App::config());
    bad[field] = value;
    const std::string error = error_of<App>(checkpoint_of<App>(App::config(), bad));
    INFO(error);
    CHECK(contains(error, "run/checkpoint.safetensors"));
    CHECK(contains(error, std::string("'") + field + "'"));
  };
  error_with(Classify(), "depth", 1000);
  error_with(Classify(), "depth", 1e9);
  error_with(Classify(), "depth", 1.9);
  error_with(Classify(), "dim", 16);
  error_with(Classify(), "patch", 2);
  error_with(Classify(), "image-size", 16);
  error_with(Classify(), "mlp-ratio", 2);
  error_with(Classify(), "classes", {"cat", "dog", "cow"});
  error_with(Lm(), "depth", 1);
  error_with(Lm(), "hidden", 1 << 22);
  error_with(Lm(), "context", 65536);
  error_with(Lm(), "vocabulary", "<eos>\na\n");
  error_with(Segment(), "decoder-depth", 1000);
  error_with(Segment(), "depth", 3);
}

TEST_CASE("untrusted config: pictures of two channels are refused, also by the tensors of such a model") {
  auto config = Classify::config();
  config.channels = 2;
  config.mean = config.std = {0.5, 0.5};
  const auto checkpoint = checkpoint_of<Classify>(config, apps::fields_to_json(config));
  CHECK(contains(error_of<Classify>(checkpoint), "'channels' is 2, need 1 or 3"));
}

// The tensors that the fields are held against are small, those that would follow are not.
TEST_CASE("untrusted config: small tensors do not vouch for large ones") {
  auto config = Classify::config();
  config.image_size = 1024;
  Json scaled = apps::fields_to_json(config);
  scaled["attention"] = "scaled-s";  // needs a matrix [2, 65537, 65537], 32 GiB
  const auto checkpoint = checkpoint_of<Classify>(config, scaled);
  const MemoryLimit limit;
  const std::string error = error_of<Classify>(checkpoint);
  INFO(error);
  CHECK(contains(error, "blocks.0.attn.S"));
}
