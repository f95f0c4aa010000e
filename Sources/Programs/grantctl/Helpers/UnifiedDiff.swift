/// The changed lines of a file, as `diff -U0` prints them. The lines around them may contain secrets of another program.
enum UnifiedDiff {
  /// Lines that are compared; more are shown as replaced.
  private static let most = 2000

  /// - Parameters:
  ///   - old: nil: there is no file.
  ///   - new: nil: the file is removed.
  static func lines(_ path: String, _ old: String?, _ new: String?) -> [String] {
    let (before, after) = (split(old ?? ""), split(new ?? ""))
    var start = 0
    while start < min(before.count, after.count), isSame(before[start], after[start]) { start += 1 }
    var tail = 0
    while tail < min(before.count, after.count) - start,
      isSame(before[before.count - 1 - tail], after[after.count - 1 - tail])
    { tail += 1 }
    let (removed, added) = changes(before[start..<(before.count - tail)], after[start..<(after.count - tail)])
    var lines: [String] = []
    var (left, right) = (start, start)
    while left < before.count - tail || right < after.count - tail {
      let (from, to) = (left, right)
      while removed.contains(left) { left += 1 }
      while added.contains(right) { right += 1 }
      guard left > from || right > to else {
        (left, right) = (left + 1, right + 1)
        continue
      }
      lines.append("@@ -\(range(from, left)) +\(range(to, right)) @@")
      lines += before[from..<left].map { "-\($0)" } + after[to..<right].map { "+\($0)" }
    }
    let names = [old, new].map { $0 == nil ? "/dev/null" : path }
    return lines.isEmpty ? [] : ["--- \(names[0])", "+++ \(names[1])"] + lines
  }

  private static func split(_ text: String) -> [Substring] {
    let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
    return lines.last == "" ? lines.dropLast() : lines
  }

  /// A comma after a member of JSON is not a change of it.
  private static func isSame(_ one: Substring, _ other: Substring) -> Bool { plain(one) == plain(other) }
  private static func plain(_ line: Substring) -> Substring { line.hasSuffix(",") ? line.dropLast() : line }

  private static func changes(
    _ old: ArraySlice<Substring>, _ new: ArraySlice<Substring>
  ) -> (removed: Set<Int>, added: Set<Int>) {
    guard old.count + new.count <= most else { return (Set(old.indices), Set(new.indices)) }
    var (removed, added) = (Set<Int>(), Set<Int>())
    for change in Array(new).difference(from: Array(old), by: isSame) {
      switch change {
      case .remove(let offset, _, _): removed.insert(old.startIndex + offset)
      case .insert(let offset, _, _): added.insert(new.startIndex + offset)
      }
    }
    return (removed, added)
  }

  private static func range(_ from: Int, _ to: Int) -> String {
    let count = to - from
    return count == 1 ? "\(from + 1)" : "\(count == 0 ? from : from + 1),\(count)"
  }
}
