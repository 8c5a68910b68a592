// Runs a package on files of inputs, and writes each output with its shape: outputs whose length depends on data are
// cut.
#include <cstdio>
#include <fstream>
#include <string>
#include <tvmbuild.hpp>

int main(int count, char **words) {
  tvmbuild::Session session(words[1]);
  for (int i = 2; i < count; i++) {
    tvmbuild::Tensor input(session.info().inputs[0]);
    std::ifstream(words[i], std::ios::binary).read(static_cast<char *>(input.data()), input.info().bytes());
    std::vector<tvmbuild::Tensor> outputs = session.run({input}), whole;
    for (const tvmbuild::TensorInfo &info : session.info().outputs) whole.emplace_back(info);
    session.copy_outputs(whole);
    std::ofstream file(words[i] + std::string(".out"), std::ios::binary);
    for (size_t place = 0; place < outputs.size(); place++) {
      const tvmbuild::TensorInfo &info = outputs[place].info();
      if (info.shape != session.output_shapes()[place]) return 1;
      if (info.count() != 0 && !whole[place].info().shape.empty() &&
          *whole[place].as<float>() != *outputs[place].as<float>())
        return 2;
      for (int64_t size : info.shape) std::printf("%lld ", static_cast<long long>(size));
      std::printf("\n");
      file.write(static_cast<const char *>(outputs[place].data()), static_cast<std::streamsize>(info.bytes()));
    }
  }
}
