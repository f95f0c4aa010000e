/// The candidate that was probably meant: the one with the fewest typing errors, where those are few for its length.
func nearest(to word: String, in candidates: [String]) -> String? {
  let best = candidates.map { (candidate: $0, distance: typingErrors(word.lowercased(), $0.lowercased())) }
    .min { ($0.distance, $0.candidate) < ($1.distance, $1.candidate) }
  guard let best, best.distance <= max(1, min(word.count, best.candidate.count) / 3) else { return nil }
  return best.candidate
}

/// `did you mean "issuer"?`, where something is near.
func didYouMean(_ word: String, _ candidates: [String]) -> String? {
  nearest(to: word, in: candidates).map { "did you mean \"\($0)\"?" }
}

/// Insertions, deletions, replacements and swaps of neighbours between two words of at most 64 characters.
private func typingErrors(_ first: String, _ second: String) -> Int {
  let (left, right) = (Array(first.unicodeScalars.prefix(64)), Array(second.unicodeScalars.prefix(64)))
  var beforeLast: [Int] = []
  var last = Array(0...right.count)
  for row in left.indices {
    var current = [row + 1]
    for column in right.indices {
      let replaced = last[column] + (left[row] == right[column] ? 0 : 1)
      var least = min(replaced, last[column + 1] + 1, current[column] + 1)
      if row > 0, column > 0, left[row] == right[column - 1], left[row - 1] == right[column] {
        least = min(least, beforeLast[column - 1] + 1)
      }
      current.append(least)
    }
    (beforeLast, last) = (last, current)
  }
  return last[right.count]
}
