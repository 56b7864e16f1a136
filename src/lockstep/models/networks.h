#pragma once

#include "lockstep/models/model.h"

// The functions that build the networks of registry(). Each is defined in the file named above its group.

namespace lockstep::models {

using CreateModel = std::unique_ptr<Model> (*)(const ModelOptions& options);

/// Builds a `Network` of its options and these arguments.
template <typename Network, auto... arguments>
std::unique_ptr<Model> create(const ModelOptions& options) {
  return std::make_unique<Network>(options, arguments...);
}

// alexnet.cpp

/// The single-column AlexNet (Krizhevsky 2014) with torchvision's structure, names and initial values.
extern const CreateModel create_alexnet;
/// The AlexNet of Krizhevsky et al. 2012 as Theano-MPI trains it: second, fourth and fifth convolution in two
/// groups, local response normalization after the first two poolings, 227x227 images, and the paper's initial
/// values. Layers have Caffe's names.
extern const CreateModel create_alexnet_caffe;

// googlenet.cpp

/// GoogLeNet (Szegedy et al. 2014) with batch normalization and torchvision's structure, names and initial
/// values, including its 3x3 convolutions in place of the paper's 5x5; no auxiliary classifiers.
extern const CreateModel create_googlenet;
/// The same with the two auxiliary classifiers, whose losses have weight 0.3.
extern const CreateModel create_googlenet_aux;

// inception_v3.cpp

/// Inception v3 (Szegedy et al. 2015) with torchvision's structure, names and initial values, and without the
/// auxiliary classifier, as tf_cnn_benchmarks trains it.
extern const CreateModel create_inception_v3;
/// The same with the auxiliary classifier, whose loss has weight 0.4; takes images of 299x299 or larger.
extern const CreateModel create_inception_v3_aux;

// resnet.cpp

/// The residual networks of He et al. 2015 and the grouped ones of Xie et al. 2016 with torchvision's
/// structure, names and initial values (residual branches are not zero-initialized).
extern const CreateModel create_resnet18;
extern const CreateModel create_resnet34;
extern const CreateModel create_resnet50;
/// The published variant: the stride is in the first 1x1 convolution of a block. All others have it in the
/// 3x3 convolution ("v1.5").
extern const CreateModel create_resnet50_v1;
extern const CreateModel create_resnet101;
extern const CreateModel create_resnet152;
extern const CreateModel create_resnext50_32x4d;
extern const CreateModel create_resnext101_32x8d;
/// The residual networks of He et al. 2015, section 4.2, for the 32x32 images of CIFAR-10: three stages of
/// 16, 32 and 64 channels. Where the shape changes, the shortcut keeps every second pixel and pads the
/// channels with zeros (option A of the paper, without parameters), half of them before and half after, as
/// tf_cnn_benchmarks does.
extern const CreateModel create_resnet20;
extern const CreateModel create_resnet56;

// small_networks.cpp

/// LeNet-5 with the widths of LeCun et al. 1998 (6 and 16 5x5 convolutions, 120, 84, 10), but with ReLU, max
/// pooling and all connections between the two convolutions; the first one is padded by 2 for MNIST's 28x28
/// images. No batch normalization.
extern const CreateModel create_lenet5;
/// 32x32x3 -> 512 -> 512 -> 512 -> 10 with ReLU between. Without convolution and batch normalization, so one
/// rank on the joint batch computes the same as the ranks on their parts.
extern const CreateModel create_mlp;
/// 32x32x3 -> 16 -> 10 with ReLU between. Modeled on tf_cnn_benchmarks' network of this name, but much
/// smaller: a step costs little more than the calls, which shows the overhead of everything around it.
extern const CreateModel create_trivial;

// vgg.cpp

/// The networks A, D and E of Simonyan and Zisserman 2014 (without batch normalization) with torchvision's
/// structure, names and initial values.
extern const CreateModel create_vgg11;
extern const CreateModel create_vgg16;
extern const CreateModel create_vgg19;

}  // namespace lockstep::models
