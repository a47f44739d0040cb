#include "apps/bench/published.h"

#include "apps/bench/models.h"
#include "engine/core/shapes_only.h"

namespace pursuit::bench {

namespace {

// Estimates of one GPU's step: from the current kernels (by reading and disassembling; none has run on a GPU
// yet), and from the planned ones (the goals for an H100, limited by the roofline).
constexpr const char *as_they_are = "kernels as they are", *as_planned = "kernels as planned";

using Shapes = std::vector<Shape>;

bool is_norm(const std::string& layer) { return layer.find("norm") != layer.npos; }

Work product_work(double rows, const Shape& weight) {
  return linear_work(rows, double(weight.numel()) / double(weight[0]), double(weight[0]));
}

// The work of one layer of a vision transformer on `batch` pictures.
Work vit_work(const nn::VitConfig& c, int64_t batch, const std::string& layer, const Shapes& parameters) {
  const double tokens = double(c.tokens()), rows = double(batch) * tokens, dim = double(c.dim);
  if (layer.empty() || is_norm(layer)) return pass_work(rows, dim);
  if (layer == "head") return product_work(double(batch), parameters[0]);
  Work w = product_work(rows, parameters[0]);
  if (layer == "patch_embed.proj") w.backward_macs /= 2;  // pictures need no gradient
  if (layer.ends_with("attn.qkv")) {
    const int64_t block = std::stoll(layer.substr(std::string("blocks.").size()));
    w = w + attention_work(rows, dim, tokens, double(nn::iterations_of_block(c.attention, block)));
  }
  return w;
}

Work segmenter_work(const nn::SegmenterConfig& c, int64_t batch, const std::string& layer,
                    const Shapes& parameters) {
  const std::string encoder = "encoder.", decoder = "decoder.";
  if (layer.starts_with(encoder)) return vit_work(c.encoder, batch, layer.substr(encoder.size()), parameters);
  if (layer == "encoder") return vit_work(c.encoder, batch, "", parameters);
  nn::VitConfig d = c.encoder;
  d.extra_tokens = d.classes;
  const double rows = double(batch * d.tokens());
  // Projections of patches and classes, and the product of both.
  if (layer == "decoder") return linear_work(rows, double(d.dim), double(d.dim + d.classes));
  if (layer == "decoder.mask_norm") {
    // Fused upsampling and cross-entropy: 30 us per picture of 512 x 512 pixels.
    const double bytes = 30e-6 * hbm_bandwidth * double(batch) / 2;
    return pass_work(rows, double(d.classes)) + Work{0, bytes, 0, bytes};
  }
  return vit_work(d, batch, layer.substr(decoder.size()), parameters);
}

Work lm_work(const nn::LmConfig& c, int64_t batch, const std::string& layer, const Shapes& parameters) {
  const double rows = double(batch * c.context), dim = double(c.dim);
  if (layer == "embed" || is_norm(layer)) return pass_work(rows, dim);
  if (layer == "output") return {};
  // The head for all tokens, the tails for 3, 4.5 and 1 percent of them (WikiText-103's words).
  if (layer == "output.head.cluster")
    return linear_work(rows, dim, double(c.cutoffs[0]) + double(c.cutoffs.size())) +
           linear_work(0.03 * rows, dim, double(c.cutoffs[1] - c.cutoffs[0])) +
           linear_work(0.045 * rows, dim, double(c.cutoffs[2] - c.cutoffs[1])) +
           linear_work(0.01 * rows, dim, double(c.vocab - c.cutoffs[2]));
  Work w = product_work(rows, parameters[0]);
  if (layer.ends_with("attn.qkv")) w = w + attention_work(rows, dim, double(c.context) / 2, 1);  // causal
  return w;
}

template <class Config>
StepTimes estimate_of(const Workload& w, const Config& config, double step_ms,
                      Work (*work)(const Config&, int64_t, const std::string&, const Shapes&)) {
  const ShapesOnly no_memory;
  const std::unique_ptr<nn::Module> model = w.model();
  return estimate(model->parameters(), step_ms, [&](const std::string& layer, const Shapes& parameters) {
    return work(config, w.batch, layer, parameters);
  });
}

}  // namespace

std::vector<Published> published() {
  const nn::VitConfig softmax, rpc = with_attention(softmax, "rpc");
  const Workload deit = training("deit-tiny-softmax", "DeiT-tiny, softmax attention", 256, softmax),
                 deit_rpc = training("deit-tiny-rpc", "DeiT-tiny, RPC n=4 in block 0", 256, rpc);

  nn::SegmenterConfig segmenter;
  segmenter.encoder.image = 512;
  segmenter.encoder.classes = 150;
  const Workload segment =
      segmentation("segmenter-tiny", "ViT-tiny on 512 px, mask transformer of 150 classes", 8, segmenter);

  nn::LmConfig lm;
  lm.vocab = 267735;  // WikiText-103's words
  lm.attention.bias = false;
  lm.output_bias = true;
  lm.cutoffs = {20000, 40000, 200000};
  const Workload language_model =
      language("lm-wikitext103", "16-layer LM, 256 tokens, tied adaptive softmax over 267735 words", 96, lm);

  return {
      {deit,
       {{as_they_are, estimate_of(deit, softmax, 15.5, vit_work)},
        {as_planned, estimate_of(deit, softmax, 8, vit_work)}},
       3},
      {deit_rpc,
       {{as_they_are, estimate_of(deit_rpc, rpc, 15.5, vit_work)},
        {as_planned, estimate_of(deit_rpc, rpc, 8, vit_work)}},
       3},
      {segment, {{as_planned, estimate_of(segment, segmenter, 2.5, segmenter_work)}}},
      // 24,576 tokens of WikiText-2 in random windows have 5,317 to 5,688 different words.
      {language_model,
       {{as_planned, estimate_of(language_model, lm, 6, lm_work)}},
       5,
       "embed.weight",
       lm.dim,
       language_model.batch * lm.context,
       6000},
  };
}

}  // namespace pursuit::bench
