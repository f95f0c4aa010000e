import OAuth

extension Duration {
  /// `45 s`, `12 min`, `3 h`, `9 days`.
  var words: String {
    let seconds = max(0, wholeSeconds)
    switch seconds {
    case ..<60: return "\(seconds) s"
    case ..<3600: return "\(seconds / 60) min"
    case ..<(48 * 3600): return "\(seconds / 3600) h"
    default: return "\(seconds / 86_400) days"
    }
  }
}
