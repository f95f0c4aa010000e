import Foundation

/// The programs of this package, as they were built with the tests.
enum Programs {
  static let grantd = path("grantd")
  static let grantctl = path("grantctl")
  /// Fills stores.
  static let fixture = path("store-fixture")

  private static func path(_ name: String) -> String {
    let executable = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
    let starts = [executable, CommandLine.arguments.first, Bundle.main.bundlePath].compactMap(\.self)
    for start in starts + [FileManager.default.currentDirectoryPath + "/.build-make/debug/x"] {
      // The executable's folder, or that of the bundle it is in.
      var folder = URL(fileURLWithPath: start)
      for _ in 0..<4 {
        folder.deleteLastPathComponent()
        let candidate = folder.appendingPathComponent(name).path
        var isFolder: ObjCBool = false
        if FileManager.default.fileExists(atPath: candidate, isDirectory: &isFolder), !isFolder.boolValue,
          FileManager.default.isExecutableFile(atPath: candidate)
        {
          return candidate
        }
      }
    }
    fatalError("\(name) is not beside the test bundle: build it first")
  }

  /// Runs grantd to its end, such as for `--check-config`.
  static func runGrantd(_ arguments: [String], in folder: Folder) async throws -> (status: Int32, output: String) {
    try await run(grantd, arguments, in: folder)
  }

  /// Runs a program to its end.
  static func run(
    _ program: String, _ arguments: [String], in folder: Folder, path: String? = nil
  ) async throws -> (status: Int32, output: String) {
    let output = folder.path("run-\(UUID().uuidString).out")
    var environment = environment(folder)
    if let path { environment["PATH"] = path }
    let child = try Child(program, arguments, environment: environment, output: output)
    do {
      let status = try await child.end()
      return (status, (try? String(contentsOfFile: output, encoding: .utf8)) ?? "")
    } catch {
      child.kill9()
      throw error
    }
  }

  /// The variables that the programs need, and under a sanitizer (scripts/search/sanitize).
  private static let kept = ["LD_LIBRARY_PATH", "LD_PRELOAD", "TSAN_OPTIONS", "ASAN_OPTIONS"]

  /// Without variables of the user who runs the tests.
  static func environment(_ folder: Folder) -> [String: String] {
    let own = [
      "PATH": "/usr/bin:/bin", "HOME": folder.root, "XDG_RUNTIME_DIR": folder.root, "XDG_CONFIG_HOME": folder.root,
      "XDG_STATE_HOME": folder.root,
    ]
    let kept = ProcessInfo.processInfo.environment.filter { Self.kept.contains($0.key) }
    return own.merging(kept) { own, _ in own }
  }
}

/// A folder that lives as long as this.
final class Folder: Sendable {
  let root: String

  init() throws {
    var template = Array((NSTemporaryDirectory() as NSString).appendingPathComponent("grantd-XXXXXX").utf8CString)
    guard mkdtemp(&template) != nil else { throw POSIXError(.EIO) }
    root = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  deinit { try? FileManager.default.removeItem(atPath: root) }

  func path(_ name: String) -> String { "\(root)/\(name)" }

  @discardableResult
  func write(_ text: String, to name: String, mode: Int = 0o600) throws -> String {
    try Data(text.utf8).write(to: URL(fileURLWithPath: path(name)))
    try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path(name))
    return path(name)
  }
}

/// Bounds how many daemons run at once, so that each has the processor time that its deadlines assume.
actor Slots {
  static let shared = Slots(6)

  private var free: Int
  private var queue: [CheckedContinuation<Void, Never>] = []

  init(_ count: Int) { free = count }

  func take() async {
    if free > 0 {
      free -= 1
    } else {
      await withCheckedContinuation { queue.append($0) }
    }
  }

  func give() {
    if queue.isEmpty { free += 1 } else { queue.removeFirst().resume() }
  }
}
