#include "read_picture.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>

#ifdef TVMBUILD_WITH_PNG
#include <png.h>
#endif
#ifdef TVMBUILD_WITH_JPEG
#include <jpeglib.h>

#include <csetjmp>
// jerror.h needs jpeglib.h before it
#include <jerror.h>
#endif
#ifdef TVMBUILD_WITH_STB
#define STBI_NO_LINEAR
#define STBI_NO_PNM
#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#include <stb_image.h>
#endif

namespace tvmbuild {
namespace {

constexpr size_t MAX_PIXELS = 178956970;  // Pillow refuses more

void set_size(Picture &picture, size_t width, size_t height, const std::string &path) {
  if (width == 0 || height == 0 || width > MAX_PIXELS || height > MAX_PIXELS / width)
    throw Error(path + " is empty or too large");
  picture.width = static_cast<int>(width);
  picture.height = static_cast<int>(height);
  picture.pixels.resize(width * height * picture.channels);
}

// P5 and P6, with 255 as the largest value: https://netpbm.sourceforge.net/doc/ppm.html
Picture read_ppm(std::ifstream &stream, const std::string &path) {
  Picture picture;
  auto number = [&] {
    while (std::isspace(stream.peek()) || stream.peek() == '#') {
      if (stream.get() == '#') {
        while (stream && stream.get() != '\n') {
        }
      }
    }
    size_t value = 0;
    if (!(stream >> value)) throw Error(path + " is damaged: no PPM header");
    return value;
  };
  stream.get();
  picture.channels = stream.get() == '6' ? 3 : 1;
  size_t width = number(), height = number();
  if (number() != 255) throw Error(path + " has more or fewer than 8 bits a channel");
  stream.get();
  set_size(picture, width, height, path);
  if (!stream.read(reinterpret_cast<char *>(picture.pixels.data()),
                   static_cast<std::streamsize>(picture.pixels.size())))
    throw Error(path + " is cut short");
  return picture;
}

#ifdef TVMBUILD_WITH_PNG
struct PngReason {
  char text[200];
};

// A jump out of libpng skips destructors, so all objects belong to the caller.
void decode_png(png_structp png, png_infop info, Picture &picture, std::vector<png_bytep> &rows) {
  png_read_info(png, info);
  size_t width = png_get_image_width(png, info), height = png_get_image_height(png, info);
  if (height > MAX_PIXELS / width) png_error(png, "too large");
  png_set_expand(png);  // palettes and fewer bits
  png_set_strip_16(png);
  png_set_strip_alpha(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
  picture.width = static_cast<int>(width);
  picture.height = static_cast<int>(height);
  picture.channels = png_get_channels(png, info);
  picture.pixels.resize(width * height * picture.channels);
  for (size_t y = 0; y < height; y++) rows.push_back(picture.pixels.data() + y * width * picture.channels);
  png_read_image(png, rows.data());
}

// libpng's simplified interface would blend transparent pixels with a background and correct gamma.
Picture read_png(const std::string &path) {
  std::unique_ptr<FILE, int (*)(FILE *)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) throw Error(path + " cannot be read");
  PngReason reason = {""};
  png_structp png = png_create_read_struct(
      PNG_LIBPNG_VER_STRING, &reason,
      [](png_structp self, png_const_charp message) {
        std::snprintf(static_cast<PngReason *>(png_get_error_ptr(self))->text, sizeof(PngReason), "%s", message);
        png_longjmp(self, 1);
      },
      [](png_structp, png_const_charp) {});
  png_infop info = png != nullptr ? png_create_info_struct(png) : nullptr;
  Picture picture;
  std::vector<png_bytep> rows;
  if (info != nullptr && setjmp(png_jmpbuf(png)) == 0) {
    png_init_io(png, file.get());
    decode_png(png, info, picture, rows);
  }
  png_destroy_read_struct(&png, &info, nullptr);
  if (reason.text[0] != '\0' || picture.pixels.empty()) throw Error(path + " is damaged: " + reason.text);
  return picture;
}
#endif

#ifdef TVMBUILD_WITH_JPEG
struct JpegFailure {
  jpeg_error_mgr manager;
  std::jmp_buf back;
  char reason[JMSG_LENGTH_MAX];
};

[[noreturn]] void leave(j_common_ptr info) {
  auto *failure = reinterpret_cast<JpegFailure *>(info->err);
  info->err->format_message(info, failure->reason);
  std::longjmp(failure->back, 1);
}

void decode_jpeg(jpeg_decompress_struct &jpeg, FILE *file, Picture &picture) {
  jpeg_create_decompress(&jpeg);
  jpeg_stdio_src(&jpeg, file);
  jpeg_read_header(&jpeg, TRUE);
  if (size_t{jpeg.image_height} > MAX_PIXELS / jpeg.image_width) ERREXIT(&jpeg, JERR_IMAGE_TOO_BIG);
  jpeg.out_color_space = JCS_RGB;
  jpeg_start_decompress(&jpeg);
  picture.width = static_cast<int>(jpeg.output_width);
  picture.height = static_cast<int>(jpeg.output_height);
  picture.pixels.resize(size_t{jpeg.output_width} * jpeg.output_height * 3);
  while (jpeg.output_scanline < jpeg.output_height) {
    JSAMPROW row = picture.pixels.data() + size_t{jpeg.output_scanline} * jpeg.output_width * 3;
    jpeg_read_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_decompress(&jpeg);
}

Picture read_jpeg(const std::string &path) {
  std::unique_ptr<FILE, int (*)(FILE *)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) throw Error(path + " cannot be read");
  Picture picture;
  jpeg_decompress_struct jpeg = {};
  JpegFailure failure = {};
  jpeg.err = jpeg_std_error(&failure.manager);
  failure.manager.error_exit = leave;
  failure.manager.output_message = [](j_common_ptr) {};
  if (setjmp(failure.back) == 0) decode_jpeg(jpeg, file.get(), picture);
  jpeg_destroy_decompress(&jpeg);
  if (failure.reason[0] != '\0' || picture.pixels.empty()) throw Error(path + " is damaged: " + failure.reason);
  return picture;
}
#endif

#ifdef TVMBUILD_WITH_STB
struct StbSource {
  std::ifstream &stream;
  bool cut_short = false;
};

// stb_image takes zeros for what is missing at a file's end. It fills its own buffer, or asks for as much as it needs.
int read_for_stb(void *source, char *data, int size) {
  auto *from = static_cast<StbSource *>(source);
  from->stream.read(data, size);
  auto got = static_cast<int>(from->stream.gcount());
  if (got == 0 || (got < size && size != sizeof(stbi__context::buffer_start))) from->cut_short = true;
  return got;
}

Picture read_by_stb(std::ifstream &stream, const std::string &path) {
  stbi_io_callbacks calls = {
      read_for_stb,
      [](void *source, int count) { static_cast<StbSource *>(source)->stream.seekg(count, std::ios::cur); },
      [](void *source) { return static_cast<int>(static_cast<StbSource *>(source)->stream.peek() == EOF); }};
  StbSource source{stream};
  int width = 0, height = 0, channels = 0;
  if (stbi_info_from_callbacks(&calls, &source, &width, &height, &channels) == 0)
    throw Error(path + " is not a picture that this program reads: " + stbi_failure_reason());
  Picture picture;
  picture.channels = 1;
  set_size(picture, static_cast<size_t>(width), static_cast<size_t>(height), path);  // before stb allocates
  stream.clear();
  stream.seekg(0);
  source.cut_short = false;
  std::unique_ptr<stbi_uc, void (*)(void *)> pixels(
      stbi_load_from_callbacks(&calls, &source, &width, &height, &channels, 0), stbi_image_free);
  if (!pixels) throw Error(path + " is damaged: " + stbi_failure_reason());
  if (source.cut_short) throw Error(path + " is cut short");
  picture.channels = channels < 3 ? 1 : 3;
  set_size(picture, static_cast<size_t>(width), static_cast<size_t>(height), path);
  const stbi_uc *from = pixels.get();
  for (size_t at = 0; at < picture.pixels.size(); at += static_cast<size_t>(picture.channels)) {
    std::copy_n(from, picture.channels, &picture.pixels[at]);  // without transparency
    from += channels;
  }
  return picture;
}
#endif

// Read a file that no other library of this program reads.
Picture read_other([[maybe_unused]] std::ifstream &stream, const std::string &path,
                   [[maybe_unused]] const std::string &reason) {
#ifdef TVMBUILD_WITH_STB
  return read_by_stb(stream, path);
#else
  throw Error(path + " is " + reason);
#endif
}

}  // namespace

Picture read_picture(const std::string &path) {
  std::error_code reason;  // first, because opening a pipe would wait for a writer
  if (!std::filesystem::is_regular_file(path, reason)) throw Error(path + " cannot be read");
  std::ifstream stream(path, std::ios::binary);
  char begin[4] = {0, 0, 0, 0};
  if (!stream || !stream.read(begin, 4)) throw Error(path + " cannot be read");
  std::string kind(begin, 4);
  stream.seekg(0);
  if (kind[0] == 'P' && (kind[1] == '5' || kind[1] == '6')) return read_ppm(stream, path);
#ifdef TVMBUILD_WITH_PNG
  if (kind == "\x89PNG") return read_png(path);
#endif
#ifdef TVMBUILD_WITH_JPEG
  if (kind.compare(0, 2, "\xff\xd8") == 0) return read_jpeg(path);
#endif
  if (kind == "\x89PNG")
    return read_other(stream, path, "a PNG, and this program was built without libpng: convert it to PPM");
  if (kind.compare(0, 2, "\xff\xd8") == 0)
    return read_other(stream, path, "a JPEG, and this program was built without libjpeg: convert it to PPM");
  return read_other(stream, path, "neither PNG, JPEG nor PPM");
}

}  // namespace tvmbuild
