import FoundationEssentials
import OAuth

/// The form of a value: defined once, so that errors and the reference agree.
struct Form<Output: Sendable>: Sendable {
  /// Completes "must be …".
  var expected: String
  var read: @Sendable (Item.Value) throws(Unfit) -> Output
}

/// Why a value does not do.
enum Unfit: Error {
  /// Completes "must be …, not …".
  case found(String, suggestion: String? = nil)
  /// A separate sentence.
  case because(String, suggestion: String? = nil)
}

extension Form {
  /// Narrows the result of a form to another type.
  func map<Other: Sendable>(
    _ expected: String? = nil, _ change: @escaping @Sendable (Output) throws(Unfit) -> Other
  ) -> Form<Other> {
    let read = read
    return Form<Other>(expected: expected ?? self.expected) { value throws(Unfit) in try change(try read(value)) }
  }
}

extension Form where Output == Bool {
  static let flag = Form(expected: "true or false") { value throws(Unfit) in
    guard case .flag(let flag) = value else { throw .found(value.kind) }
    return flag
  }
}

extension Form where Output == Int {
  static func number(_ range: ClosedRange<Int>) -> Form {
    Form(expected: "a number from \(range.lowerBound) to \(range.upperBound)") { value throws(Unfit) in
      guard case .number(let number) = value else { throw .found(value.kind) }
      guard range.contains(number) else { throw .found(String(number)) }
      return number
    }
  }
}

extension Form where Output == UInt32 {
  /// A uid or gid; the largest number means "none" to the kernel.
  static let id = Form<Int>.number(0...Int(UInt32.max) - 1).map { number in UInt32(number) }

  /// Permissions as `chmod` writes them.
  static let mode = Form<String>.text.map("permissions in octal, such as \"0666\"") { text throws(Unfit) in
    guard (3...4).contains(text.utf8.count), let mode = UInt32(text, radix: 8), mode <= 0o777 else {
      throw .found(quoted(text))
    }
    return mode
  }
}

extension Form where Output == Double {
  static func share(_ range: ClosedRange<Double>) -> Form {
    Form(expected: "a number from \(range.lowerBound) to \(range.upperBound)") { value throws(Unfit) in
      let share: Double
      switch value {
      case .fraction(let fraction): share = fraction
      case .number(let number): share = Double(number)
      default: throw .found(value.kind)
      }
      guard range.contains(share) else { throw .found(String(share)) }
      return share
    }
  }
}

extension Form where Output == String {
  static let text = Form(expected: "a text") { value throws(Unfit) in
    guard case .text(let text) = value else { throw .found(value.kind) }
    guard text.utf8.count <= 4096 else { throw .found("one of \(text.utf8.count) bytes") }
    guard !text.unicodeScalars.contains(where: { $0.value < 0x20 || $0.value == 0x7f }) else {
      throw .found("one with control characters")
    }
    return text
  }

  static let name = text.map("a text that is not empty") { text throws(Unfit) in
    guard !text.isEmpty else { throw .found("an empty one") }
    return text
  }

  /// Errors do not quote an invalid path: it may be the secret itself, in the wrong place.
  static let path = text.map("an absolute path") { text throws(Unfit) in
    guard text.hasPrefix("/") else { throw .found("a relative one") }
    return text
  }

  static let separator = text.map("\" \" or \",\"") { text throws(Unfit) in
    guard text == " " || text == "," else { throw .found(quoted(text)) }
    return text
  }

  static func choice(_ words: [String]) -> Form {
    text.map(words.map { "\"\($0)\"" }.joined(separator: " or ")) { text throws(Unfit) in
      guard words.contains(text) else { throw .found(quoted(text), suggestion: didYouMean(text, words)) }
      return text
    }
  }
}

extension Form where Output: RawRepresentable & CaseIterable, Output.RawValue == String {
  static var word: Form { word(Array(Output.allCases)) }

  static func word(_ cases: [Output]) -> Form {
    Form<String>.choice(cases.map(\.rawValue)).map { text throws(Unfit) in
      guard let value = Output(rawValue: text) else { throw .found(quoted(text)) }
      return value
    }
  }
}

extension Form {
  /// A list of at most 100 elements, each of one form.
  static func list<Element: Sendable>(
    _ element: Form<Element>, of what: String, orEmpty: Bool = true
  ) -> Form<[Element]> where Output == [Element] {
    Form<[Element]>(expected: "a list of \(what)") { value throws(Unfit) in
      guard case .list(let items) = value else { throw .found(value.kind) }
      guard !items.isEmpty || orEmpty else { throw .found("an empty one") }
      guard items.count <= 100 else { throw .found("one of \(items.count) elements") }
      var result: [Element] = []
      for item in items {
        do throws(Unfit) {
          result.append(try element.read(item.value))
        } catch .found(let found, let suggestion) {
          throw .found("one with \(found)", suggestion: suggestion)
        }
      }
      return result
    }
  }
}

extension Form where Output == [String] {
  static let names = list(.name, of: "texts")
}

extension Form where Output == [String: String] {
  /// Parameters or headers. Errors quote only the names: a value may be a secret.
  static let texts = Form(expected: "a table of texts") { value throws(Unfit) in
    guard case .table(let table) = value else { throw .found(value.kind) }
    guard table.count <= 100 else { throw .found("one of \(table.count) entries") }
    var result: [String: String] = [:]
    for (key, item) in table.inOrder {
      do throws(Unfit) {
        result[key] = try Form<String>.text.read(item.value)
      } catch .found(let found, _) {
        throw .found("one where \(quoted(key)) is \(found)")
      }
    }
    return result
  }
}

/// Text from the file as errors show it.
func quoted(_ text: String) -> String { "\"\(text.printable(limit: 64))\"" }
