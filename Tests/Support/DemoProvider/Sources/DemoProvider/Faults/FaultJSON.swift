extension DemoServer.Fault {
  /// The control API's form. A member that is not understood is an error, as a fault that does nothing hides a bug.
  init(_ json: DemoServer.JSON) throws(ControlFailure) {
    guard case .object(let members) = json else { throw ControlFailure("a fault is a JSON object") }
    guard let kind = members["kind"]?.string.flatMap(Kind.init(rawValue:)) else {
      throw ControlFailure("kind is one of: \(Kind.allCases.map(\.rawValue).joined(separator: ", "))")
    }
    guard let place = (members["endpoint"]?.string ?? "*").asPlace else {
      throw ControlFailure("endpoint is one of: \(Place.allCases.map(\.rawValue).joined(separator: ", "))")
    }
    self.init(kind, at: place)
    for (name, value) in members where name != "kind" && name != "endpoint" {
      guard try assign(value, to: name) else { throw ControlFailure("\(name) cannot be \(value.text)") }
    }
    try check()
  }

  /// A fault that can never act, or never end, is a mistake of the one who set it.
  func check() throws(ControlFailure) {
    guard place == .any || Place.allCases.contains(where: { place.covers($0) && kind.acts(at: $0) }) else {
      let places = kind.acts.at.map(\.rawValue).sorted().joined(separator: ", ")
      throw ControlFailure("\(kind.rawValue) does not act at \(place.rawValue), only at: \(places)")
    }
    guard times.map({ $0 > 0 }) ?? true else { throw ControlFailure("times is at least 1") }
    guard parameters.seconds.map({ abs($0) <= Limits.faultSeconds }) ?? true else {
      throw ControlFailure("seconds is at most \(Limits.faultSeconds)")
    }
    guard parameters.status.map(Limits.statusCodes.contains) ?? true else {
      throw ControlFailure("a status code is in \(Limits.statusCodes)")
    }
    guard parameters.bytes.map(Limits.hugeBodyBytes.contains) ?? true else {
      throw ControlFailure("bytes is in \(Limits.hugeBodyBytes)")
    }
    guard parameters.bytesPerSecond.map(Limits.slowBodyRate.contains) ?? true else {
      throw ControlFailure("bytes_per_second is in \(Limits.slowBodyRate)")
    }
  }

  /// Whether the value has the right type.
  private mutating func assign(_ value: DemoServer.JSON, to name: String) throws(ControlFailure) -> Bool {
    switch name {
    case "times":
      times = value.int
      return value == .null || value.int != nil
    case "when":
      guard let moment = value.string.flatMap(Moment.init(rawValue:)) else { return false }
      parameters.moment = moment
      return true
    case "seconds":
      parameters.seconds = value.number
      return value.number != nil
    case "code":
      // An HTTP status or an OAuth error code: both kinds of fault call it code.
      parameters.status = value.int ?? parameters.status
      parameters.error = value.string ?? parameters.error
      return value.string != nil || value.int != nil
    case "status":
      parameters.status = value.int
      return value.int != nil
    case "bytes":
      parameters.bytes = value.int
      return value.int != nil
    case "bytes_per_second":
      parameters.bytesPerSecond = value.int
      return value.int != nil
    default:
      guard let path = Self.texts[name] else { throw ControlFailure("unknown member \(name)") }
      parameters[keyPath: path] = value.int.map(String.init) ?? value.string
      return parameters[keyPath: path] != nil
    }
  }

  /// The table of faults, for the control API: each kind and the endpoints at which it acts.
  static var catalogue: DemoServer.JSON {
    .object(
      Dictionary(
        uniqueKeysWithValues: Kind.allCases.map { kind in
          (kind.rawValue, .array(kind.acts.at.map(\.rawValue).sorted().map { .string($0) }))
        }))
  }

  private static var texts: [String: WritableKeyPath<Parameters, String?>] {
    [
      "retry_after": \.retryAfter, "body": \.body, "content_type": \.contentType, "error": \.error,
      "description": \.errorDescription, "error_description": \.errorDescription, "location": \.location,
      "value": \.value,
    ]
  }
}

extension String {
  fileprivate var asPlace: DemoServer.Fault.Place? { .init(rawValue: self) }
}
