#include "engine/core/tape.h"

#include <unordered_map>
#include <unordered_set>

#include "engine/core/observer.h"
#include "engine/core/tensor.h"

namespace pursuit {

namespace {

thread_local bool recording = true;

// Topological order, inputs first. Not recursive: a deep network would overflow the call stack.
std::vector<Node*> topological_order(Node* root) {
  std::vector<Node*> order;
  std::unordered_set<Node*> seen{root};
  std::vector<std::pair<Node*, size_t>> stack{{root, 0}};
  while (!stack.empty()) {
    auto& [node, next] = stack.back();
    if (next < node->inputs.size()) {
      Node* in = node->inputs[next++].get();
      if (in && seen.insert(in).second) stack.push_back({in, 0});
    } else {
      order.push_back(node);
      stack.pop_back();
    }
  }
  return order;
}

// Gradients of a leaf with a copy arrive in either dtype; they are summed in the leaf's own.
Tensor add_up(const Node& node, const Tensor& a, const Tensor& b) {
  return node.copy.defined() ? a.to(DType::f32) + b.to(DType::f32) : a + b;
}

// The same, in place if one of the two has memory that nothing else references.
Tensor add_up_in_place(const Node& node, const Tensor& a, const Tensor& b) {
  if (node.copy.defined() || a.shape() != b.shape() || a.dtype() != b.dtype()) return add_up(node, a, b);
  for (const auto& [sum, x] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    if (sum->storage().use_count() > 1 || !sum->is_contiguous()) continue;
    add_to(*sum, *x);
    return sum->detach();  // a copy in another dtype, see bind_copy, was of what it held before
  }
  return a + b;
}

void check_gradient_fits(const Node& node, const Tensor& g, const Tensor& home) {
  if (g.shape() != home.shape() || (g.dtype() != home.dtype() && !node.copy.defined()))
    fail(node.name, "a gradient of " + g.str() + " reached a leaf whose gradient is " + home.str());
}

void collect(Node& leaf, const Tensor& g) {
  if (leaf.bound) {
    check_gradient_fits(leaf, g, leaf.grad);
    leaf.fresh ? copy_values(leaf.grad, g) : add_to(leaf.grad, g.to(leaf.grad.dtype()));
  } else if (leaf.fresh) {
    leaf.grad = g.detach();
  } else {
    check_gradient_fits(leaf, g, leaf.grad);
    leaf.grad = add_up(leaf, leaf.grad, g);
  }
  leaf.fresh = false;
  ++leaf.arrivals;
}

// The gradient is only valid for the values that the operator saw.
void check_unchanged(const Node& node) {
  for (const Node::Saved& s : node.saved) {
    const Version* v = version_of(s.storage);
    if (v->writes != s.writes)
      fail(node.name,
           std::string("backward needs a tensor that ") + v->writer.load() +
               " has overwritten since the forward pass; call backward() before, or write to a copy");
  }
}

}  // namespace

// Unlinks the nodes that only this one owns iteratively: freeing the nodes of a deep network recursively
// would overflow the call stack.
Node::~Node() {
  std::vector<std::shared_ptr<Node>> rest = std::move(inputs);
  while (!rest.empty()) {
    const std::shared_ptr<Node> node = std::move(rest.back());
    rest.pop_back();
    if (!node || node.use_count() > 1) continue;
    for (auto& in : node->inputs) rest.push_back(std::move(in));
    node->inputs.clear();
  }
}

NoGrad::NoGrad() : before_(recording) { recording = false; }
NoGrad::~NoGrad() { recording = before_; }
bool grad_enabled() { return recording; }

void record(Tensor& y, const char* name, std::span<const Argument> arguments,
            std::function<Grads(const Tensor&, Tensor)> backward, bool adds) {
  auto node = std::make_shared<Node>();
  node->name = name;
  node->leaf = false;
  const auto save_if_held = [&](const Storage& storage, long handles) {
    if (storage.use_count() <= handles) return;
    if (const Version* v = version_of(storage)) node->saved.push_back({storage, v->writes});
  };
  bool is_view = false;  // y is one more handle on its storage
  for (const Argument& a : arguments) {
    node->inputs.push_back(a.tensor->node());
    const bool same = a.tensor->storage() == y.storage();
    save_if_held(a.tensor->storage(), a.handles + same);
    is_view = is_view || same;
  }
  if (!is_view) {
    save_if_held(y.storage(), 1);
    observe(y);
  }
  node->backward = std::move(backward);
  node->adds = adds;
  y.set_node(std::move(node));
}

Tensor& Tensor::requires_grad() {
  if (!defined()) fail_undefined("requires_grad");
  if (!is_floating(dtype_))
    fail("requires_grad", "a " + str() + " has no gradient; convert it to a floating type");
  if (node_ && !node_->leaf)
    fail("requires_grad", std::string("this tensor was computed by ") + node_->name + "; use detach() first");
  if (!node_) node_ = std::make_shared<Node>();
  return *this;
}

Tensor Tensor::detach() const {
  Tensor t = *this;
  t.node_ = nullptr;
  return t;
}

Tensor Tensor::grad() const { return node_ && !node_->fresh ? node_->grad : Tensor(); }

void Tensor::zero_grad() {
  if (!node_) return;
  node_->fresh = true;
  if (!node_->bound) node_->grad = {};
}

void Tensor::bind_grad(Tensor home) {
  require_defined("bind_grad", {&home});
  requires_grad();
  if (home.shape() != shape_ || home.dtype() != dtype_ || home.device() != device_ || !home.is_contiguous())
    fail("bind_grad", "got " + home.str() + ", need a contiguous " + str());
  node_->grad = std::move(home);
  node_->bound = true;
  node_->fresh = true;
}

void Tensor::bind_copy(const Tensor& copy) {
  require_defined("bind_copy", {&copy});
  if (!node_ || !node_->leaf || dtype_ != DType::f32) fail("bind_copy", "a " + str() + " is no f32 leaf");
  if (copy.shape() != shape_ || copy.device() != device_)
    fail("bind_copy", "got " + copy.str() + ", need the shape and device of " + str());
  node_->copy = copy.detach();
}

void Tensor::backward() const {
  if (!defined()) fail_undefined("backward");
  if (numel() != 1)
    fail("backward", "a " + str() + " is not a scalar; pass the gradient of the loss with respect to it");
  backward(ones(shape_, dtype_, device_));
}

void Tensor::backward(const Tensor& seed) const {
  if (!defined()) fail_undefined("backward");
  pursuit::backward(*this, seed, [](const Node&) {});
}

void backward(const Tensor& y, const Tensor& seed, const std::function<void(const Node&)>& arrived) {
  require_defined("backward", {&y, &seed});
  Node* const root = y.node().get();
  if (!root)
    fail("backward", "this tensor is not on the tape: nothing it was computed from requires a gradient");
  if (seed.shape() != y.shape() || seed.dtype() != y.dtype() || seed.device() != y.device())
    fail("backward", "the seed is " + seed.str() + ", need " + y.str());

  NoGrad off;
  MemoryTag tag("gradients");
  const std::vector<Node*> order = topological_order(root);
  std::unordered_map<Node*, Tensor> pending;
  pending[root] = seed.detach();
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    Node& node = **it;
    const auto found = pending.find(&node);
    if (found == pending.end()) continue;
    const Tensor g = std::move(found->second);
    pending.erase(found);
    if (node.leaf) {
      collect(node, g);
      arrived(node);
      continue;
    }
    if (!node.backward)
      fail(node.name, "the tape was run already and its saved tensors are freed; run the forward pass again");
    check_unchanged(node);
    Tensor so_far;
    if (Node* in = node.adds ? node.inputs[0].get() : nullptr; in && !in->copy.defined())
      if (const auto slot = pending.find(in); slot != pending.end()) so_far = std::move(slot->second);
    const Grads grads = node.backward(g, std::move(so_far));
    node.backward = nullptr;
    node.saved.clear();
    if (grads.size() != node.inputs.size())
      fail(node.name, "backward gave " + std::to_string(grads.size()) + " gradients, need " +
                          std::to_string(node.inputs.size()));
    for (size_t i = 0; i < grads.size(); ++i) {
      Node* in = node.inputs[i].get();
      if (!in || !grads[i].defined()) continue;
      observe(grads[i]);
      Tensor& slot = pending[in];
      slot = slot.defined() ? add_up_in_place(*in, slot, grads[i]) : grads[i];
    }
  }
}

}  // namespace pursuit
