import OAuth

enum QueryParameters {
  /// Nil where an escape is broken, or a parameter is there twice.
  static func decode(_ text: Substring) -> [String: String]? {
    guard let parameters = FormEncoding.decode(text) else { return nil }
    let values = Dictionary(parameters.map { ($0.name, $0.value) }) { first, _ in first }
    return values.count == parameters.count ? values : nil
  }

  /// The value of a path; nil if an escape is invalid.
  static func unescaped(_ path: String) -> String? {
    FormEncoding.unescape(path.utf8, plus: UInt8(ascii: "+"))
  }
}
