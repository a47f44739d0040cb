#pragma once
#include "tests/goldens/golden.h"

// One function per case of the golden files, named like the attribute `case`.
namespace pursuit::goldens {

void attention_case(Golden& g);
void clipped_softmax_case(Golden& g);
void clipped_attention_case(Golden& g);
void gated_attention_case(Golden& g);
void scaled_attention_case(Golden& g);
void rpc_attention_case(Golden& g);

void layernorm_case(Golden& g);
void gelu_case(Golden& g);
void cross_entropy_case(Golden& g);
void embedding_case(Golden& g);
void patchify_case(Golden& g);
void adaptive_softmax_case(Golden& g);
void bilinear_case(Golden& g);
void miou_case(Golden& g);

void batch_norm_case(Golden& g);
void group_norm_case(Golden& g);
void instance_norm_case(Golden& g);
void rms_norm_case(Golden& g);

void conv2d_case(Golden& g);
void max_pool2d_case(Golden& g);
void avg_pool2d_case(Golden& g);

void elementwise_case(Golden& g);
void along_case(Golden& g);
void compared_case(Golden& g);

void svt_case(Golden& g);
void pcp_case(Golden& g);

void vit_case(Golden& g);
void lenet_case(Golden& g);
void resnet18_case(Golden& g);
void resnet50_case(Golden& g);
void fan_case(Golden& g);

}  // namespace pursuit::goldens
