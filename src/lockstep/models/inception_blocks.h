#pragma once

#include <string>

#include "lockstep/kernels/pool.h"
#include "lockstep/models/conv_chain.h"

namespace lockstep::models {

/// Of the first weights of all of Inception v3 but the auxiliary classifier's last layer.
inline constexpr double kInceptionDeviation = 0.1;

/// The blocks of Inception v3 by torchvision's letters, in Szegedy et al. 2015: A figure 5 (35x35), B the
/// step to 17x17, C figure 6, D the step to 8x8, E figure 7.
class InceptionA {
 public:
  InceptionA(replica::Parameters& parameters, const std::string& name, int64_t in, int64_t pooled);
  at::Tensor operator()(const at::Tensor& x, const kernels::Context& context) const;

 private:
  ConvChain one_;
  ConvChain five_;
  ConvChain three_twice_;
  ConvChain pooled_;
};

class InceptionB {
 public:
  InceptionB(replica::Parameters& parameters, const std::string& name, int64_t in);
  at::Tensor operator()(const at::Tensor& x, const kernels::Context& context) const;

 private:
  ConvChain three_;
  ConvChain three_twice_;
};

class InceptionC {
 public:
  /// `width`: channels inside the branches of 7x1 and 1x7.
  InceptionC(replica::Parameters& parameters, const std::string& name, int64_t in, int64_t width);
  at::Tensor operator()(const at::Tensor& x, const kernels::Context& context) const;

 private:
  ConvChain one_;
  ConvChain seven_;
  ConvChain seven_twice_;
  ConvChain pooled_;
};

class InceptionD {
 public:
  InceptionD(replica::Parameters& parameters, const std::string& name, int64_t in);
  at::Tensor operator()(const at::Tensor& x, const kernels::Context& context) const;

 private:
  ConvChain three_;
  ConvChain seven_;
};

class InceptionE {
 public:
  InceptionE(replica::Parameters& parameters, const std::string& name, int64_t in);
  at::Tensor operator()(const at::Tensor& x, const kernels::Context& context) const;

 private:
  ConvChain one_;
  ConvChain three_;
  ConvChain three_wide_;
  ConvChain three_tall_;
  ConvChain three_twice_;
  ConvChain three_twice_wide_;
  ConvChain three_twice_tall_;
  ConvChain pooled_;
};

}  // namespace lockstep::models
