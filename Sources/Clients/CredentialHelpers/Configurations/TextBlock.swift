/// Lines of grantd's own in a program's text file, between two comments.
public struct TextBlock: Sendable, Equatable {
  public enum Position: Sendable, Equatable {
    case start, end
    /// Before the first block for a part of that server, whose label ends with the server and a path; else at the end.
    case beforePaths(of: String)
  }

  /// A line elsewhere in the file that the block would contradict. White space and quotation marks do not count.
  public enum Conflict: Sendable, Equatable {
    case line(String)
    case start(String)

    func isMet(by line: Substring) -> Bool {
      let words = Self.plain(line)
      return switch self {
      case .line(let text): words == Self.plain(text[...])
      case .start(let text): words.hasPrefix(Self.plain(text[...]))
      }
    }

    private static func plain(_ text: Substring) -> String {
      text.filter { !$0.isWhitespace && $0 != "\"" && $0 != "'" }
    }
  }

  /// What tells this block from others: `git work`.
  public var label: String
  public var text: String
  public var comment: String
  public var position: Position

  public init(label: String, text: String, comment: String = "#", position: Position = .end) {
    self.label = label
    self.text = text
    self.comment = comment
    self.position = position
  }

  private static let mark = " >>> grantd: "
  private var first: String { comment + Self.mark + label }
  private var last: String { "\(comment) <<< grantd: \(label)" }

  public var whole: String { [first, text, last].map { $0 + "\n" }.joined() }

  /// The file with the block, in its old place where it has been there already.
  public func merged(into file: String) -> String {
    if let (before, after) = around(file) { return before + whole + after }
    guard !file.isEmpty else { return whole }
    switch position {
    case .start: return whole + "\n" + file
    case .beforePaths(let server):
      if let line = Self.marked(file, comment).first(where: { Self.isPart($0.label, of: server) })?.line {
        return String(file[..<line.startIndex]) + whole + "\n" + file[line.startIndex...]
      }
      fallthrough
    case .end: return file + (file.hasSuffix("\n") ? "" : "\n") + "\n" + whole
    }
  }

  private static func isPart(_ label: String, of server: String) -> Bool {
    label.split(separator: " ").last?.hasPrefix(server + "/") == true
  }

  /// The file without the block, and without the empty line that was put before it.
  public func removed(from file: String) -> String {
    guard let (before, after) = around(file) else { return file }
    switch position {
    case .start: return before + (after.hasPrefix("\n") ? String(after.dropFirst()) : after)
    case _ where before.isEmpty: return after.hasPrefix("\n") ? String(after.dropFirst()) : after
    case .end, .beforePaths: return (before.hasSuffix("\n\n") ? String(before.dropLast()) : before) + after
    }
  }

  /// The labels of the blocks in a file.
  public static func labels(in file: String, comment: String = "#") -> [String] {
    marked(file, comment).map(\.label)
  }

  /// The first lines of the blocks in a file.
  private static func marked(_ file: String, _ comment: String) -> [(line: Substring, label: String)] {
    file.split(separator: "\n").filter { $0.hasPrefix(comment + mark) }.map {
      ($0, String($0.dropFirst((comment + mark).count)))
    }
  }

  /// The text before and after the block; nil if it is missing, or has no end.
  private func around(_ file: String) -> (String, String)? {
    var lines = file.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
    guard let start = lines.firstIndex(of: first), let end = lines[start...].firstIndex(of: last) else { return nil }
    let after = lines[(end + 1)...].joined(separator: "\n")
    lines.removeSubrange(start...)
    return (lines.map { $0 + "\n" }.joined(), after)
  }

  /// The first line elsewhere in the file that the block would contradict.
  public func conflict(in file: String, with conflicts: [Conflict]) -> String? {
    let rest = around(file).map { $0.0 + $0.1 } ?? file
    return rest.split(separator: "\n").first { line in conflicts.contains { $0.isMet(by: line) } }.map(String.init)
  }
}
