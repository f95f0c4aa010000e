import Broker

/// A value in an INI file of another program, by lines: comments, order and all other lines stay unchanged.
enum MergedINI {
  private static let newline = UInt8(ascii: "\n")

  static func set(
    _ value: [UInt8], _ key: String, _ section: String, in bytes: [UInt8], _ path: String
  ) throws(TokenFileFailure) -> [UInt8] {
    guard !value.contains(where: { $0 < 0x20 }) else {
      throw TokenFileFailure("the value has several lines, which \(path) cannot hold", hint: "Choose another `format`.")
    }
    var lines = bytes.split(separator: newline, omittingEmptySubsequences: false).map { Array($0) }
    guard let header = lines.firstIndex(where: { isHeader($0, of: section) }) else {
      throw TokenFileFailure(
        "\(path) has no section [\(section)]", hint: "Have its program make that first, such as by `rclone config`.")
    }
    let line = { (old: [UInt8]?) in (old ?? Array(key.utf8) + Array(" = ".utf8)) + value }
    if let index = index(of: key, behind: header, lines) {
      let assignment = lines[index].firstIndex(of: UInt8(ascii: "=")) ?? lines[index].endIndex - 1
      let space = lines[index][(assignment + 1)...].prefix { $0 == 0x20 || $0 == 0x09 }
      lines[index] = line(Array(lines[index][...assignment] + space))
    } else {
      lines.insert(line(nil), at: lastLine(of: header, lines) + 1)
    }
    return Array(lines.joined(separator: [newline]))
  }

  /// The unchanged bytes if the key does not exist.
  static func removed(_ key: String, _ section: String, from bytes: [UInt8]) -> [UInt8] {
    var lines = bytes.split(separator: newline, omittingEmptySubsequences: false).map { Array($0) }
    guard let header = lines.firstIndex(where: { isHeader($0, of: section) }),
      let index = index(of: key, behind: header, lines)
    else { return bytes }
    lines.remove(at: index)
    return Array(lines.joined(separator: [newline]))
  }

  private static func trimmed(_ bytes: some Collection<UInt8>) -> [UInt8] {
    let isSpace = { (byte: UInt8) in byte == 0x20 || byte == 0x09 || byte == 0x0D }
    return Array(bytes.drop(while: isSpace).reversed().drop(while: isSpace).reversed())
  }

  private static func isHeader(_ line: [UInt8], of section: String) -> Bool {
    trimmed(line) == Array("[\(section)]".utf8)
  }

  private static func isAnyHeader(_ line: [UInt8]) -> Bool { trimmed(line).first == UInt8(ascii: "[") }

  private static func index(of key: String, behind header: Int, _ lines: [[UInt8]]) -> Int? {
    for index in lines.indices.dropFirst(header + 1) {
      if isAnyHeader(lines[index]) { return nil }
      guard let end = lines[index].firstIndex(of: UInt8(ascii: "=")) else { continue }
      if trimmed(lines[index][..<end]) == Array(key.utf8) { return index }
    }
    return nil
  }

  /// The section's end, without the empty lines before the next.
  private static func lastLine(of header: Int, _ lines: [[UInt8]]) -> Int {
    let end = lines.indices.dropFirst(header + 1).first { isAnyHeader(lines[$0]) } ?? lines.endIndex
    return lines.indices[header..<end].last { $0 == header || !trimmed(lines[$0]).isEmpty } ?? header
  }
}
