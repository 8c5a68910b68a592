// Runs the model that is linked into this program on numbers from stdin; prints the outputs.
#include <linked_model.h>

#include <cstdio>
#include <exception>

int main() {
  try {
    tvmbuild::Session session(kLinkedModel);
    std::vector<tvmbuild::Tensor> inputs;
    for (const tvmbuild::TensorInfo &info : session.info().inputs) {
      inputs.emplace_back(info);
      for (size_t i = 0; i < info.count(); i++) {
        if (std::scanf("%f", inputs.back().as<float>() + i) != 1)
          throw tvmbuild::Error("too few numbers for " + info.name);
      }
    }
    for (const tvmbuild::Tensor &output : session.run(inputs)) {
      std::printf("%s", output.info().name.c_str());
      for (size_t i = 0; i < output.info().count(); i++) std::printf(" %.9g", output.as<float>()[i]);
      std::printf("\n");
    }
    return 0;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
