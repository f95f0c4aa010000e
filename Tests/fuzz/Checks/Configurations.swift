import Foundation
import Glibc

@testable import GrantdConfiguration

extension Target {
  /// Any text gives settings, or an error that names a line.
  static let toml = Target(name: "toml", longest: 8192) { bytes in
    try checkDocument(decoded(bytes))
    try file.write(bytes)
    let sources = Settings.Sources(
      file: file.path, mustExist: true, templateFolders: [templates], groups: [], user: { ["mail": 8][$0] },
      group: { ["operators": 900][$0] })
    switch Result(catching: { () throws(ConfigurationError) in try Settings.load(sources) }) {
    case .success(let settings):
      for warning in settings.warnings { try expectSayable(warning) }
    case .failure(let error): try check(error, lines: bytes.count { $0 == 0x0A } + 1)
    }
  }

  /// The shipped ones: a profile must not be a way to break the reader.
  private static let templates = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent().deletingLastPathComponent().appending(path: "config/providers.d").path

  private static let file = ScratchFile()

  private static func check(_ error: ConfigurationError, lines: Int) throws {
    try expect((1...ConfigurationError.limit).contains(error.problems.count), "\(error.problems.count) problems")
    for problem in error.problems {
      try expectSayable(problem.description)
      guard let line = problem.line else {
        // The complete file.
        let isWhole = ["is not UTF-8", "is larger than"].contains { problem.message.hasPrefix($0) }
        try expect(isWhole, "no line: \(problem)")
        continue
      }
      let isOfTemplate = problem.file != file.path
      try expect(isOfTemplate || (1...lines).contains(line), "line \(line) of \(lines): \(problem)")
    }
  }

  /// Every key is found in its line.
  private static func checkDocument(_ text: String) throws {
    var report = ConfigurationReport()
    guard let root = TOMLDocument.parse(text, file: "f.toml", report: &report) else {
      return try expect(report.error != nil, "no document, and no error")
    }
    try checkPlaces(root)
  }

  private static func checkPlaces(_ table: [String: Item]) throws {
    for (key, item) in table {
      try expect(item.place.line != nil, "\(key.debugDescription) has no line")
      if let table = item.table { try checkPlaces(table) }
    }
  }
}

/// A file that only this process can name, removed with it.
private struct ScratchFile {
  let path: String
  private let descriptor: Int32

  init() {
    var template = Array(FileManager.default.temporaryDirectory.appending(path: "fuzz-XXXXXX").path.utf8CString)
    descriptor = mkstemp(&template)
    precondition(descriptor >= 0 && unlink(template) == 0, "no scratch file: \(errno)")
    path = "/proc/self/fd/\(descriptor)"
  }

  func write(_ bytes: [UInt8]) throws {
    try expect(ftruncate(descriptor, 0) == 0 && pwrite(descriptor, bytes, bytes.count, 0) == bytes.count, "not written")
  }
}
