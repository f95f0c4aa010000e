import Foundation
import Testing

/// Everything that fuzzing starts from or has found, without a fuzzer.
/// One after the other, since a target may have a scratch file.
@Suite("Inputs of the fuzzer", .serialized)
struct ReplayTests {
  /// The maximum number of cuts of one input.
  private static let cuts = 16
  private static let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()

  private func inputs(_ kind: String, of target: Target) -> [URL] {
    let folder = Self.folder.appending(path: "\(kind)/\(target.name)")
    let files = try? FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
    return (files ?? []).sorted { $0.path < $1.path }
  }

  @Test("the corpus of each target, and what once broke it, keep its promises", arguments: Target.all)
  func replay(target: Target) throws {
    let corpus = inputs("corpus", of: target)
    #expect(!corpus.isEmpty, "\(target.name) has no corpus")
    for file in corpus + inputs("regressions", of: target) {
      let bytes = [UInt8](try Data(contentsOf: file))
      #expect(throws: Never.self, "\(target.name): \(file.lastPathComponent)") { try target.check(bytes) }
    }
  }

  @Test("a cut input keeps them too", arguments: Target.all)
  func cut(target: Target) throws {
    for file in inputs("corpus", of: target).prefix(8) {
      let bytes = [UInt8](try Data(contentsOf: file))
      for count in stride(from: 0, to: bytes.count, by: max(1, (bytes.count + Self.cuts - 1) / Self.cuts)) {
        #expect(throws: Never.self, "\(target.name): \(count) bytes of \(file.lastPathComponent)") {
          try target.check(Array(bytes.prefix(count)))
        }
      }
    }
  }

  @Test("every folder is a target's")
  func folders() throws {
    let names = Set(Target.all.map(\.name))
    for kind in ["corpus", "regressions", "dictionaries"] {
      let found = (try? FileManager.default.contentsOfDirectory(atPath: Self.folder.appending(path: kind).path)) ?? []
      for name in found where !name.hasPrefix(".") {
        #expect(names.contains(name.replacing(".dict", with: "")), "\(kind)/\(name)")
      }
    }
  }
}

extension Target: CustomTestStringConvertible {
  var testDescription: String { name }
}
