#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace pursuit::data {

// A piece of text: a memory-mapped file, part of one, or generated text.
struct TextFile {
  std::string name;  // the path, for messages
  std::string_view text;
  int64_t offset = 0;  // of `text` in the file
  std::shared_ptr<const void> owner;
  int64_t first_line = 1;  // of `text` in the file
};

enum class TextSplit { train, valid, test };
const char* name_of(TextSplit split);
TextSplit text_split(const std::string& name);  // throws and lists the valid names

// The files of a text data set, by split. In a `wiki` set an article begins at a heading line " = Title = ";
// in a `text` set every file is a document; in the `grammar` every line is one.
struct TextSource {
  enum class Layout { wiki, text, grammar } layout = Layout::text;
  std::vector<TextFile> train, valid, test;
  const std::vector<TextFile>& split(TextSplit s) const;
};

// Detects the layout of a folder:
//   wiki.train.tokens, wiki.valid.tokens, wiki.test.tokens   as WikiText is published
//   train.txt, valid.txt, test.txt                           plain text; or folders of these names with *.txt
//   *.txt                                                    the last tenth, cut at a line's end, is held out;
//                                                            refused if some have names of splits
// An empty path gives the built-in grammar (data/text/grammar.h). A set without a test split has an empty
// one. Throws Error that names the folder or the file that is missing, empty or not a file.
TextSource open_text(const std::string& path);

// Maps a file, without its byte order mark.
TextFile map_text(const std::string& path);

}  // namespace pursuit::data
