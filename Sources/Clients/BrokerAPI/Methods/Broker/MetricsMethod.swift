public enum BrokerMetrics: RPCMethod {
  public static let name = "broker.metrics"
  public static let access = Access.observe
  public static let summary =
    "Returns the broker's metrics, per provider and never per account, as OpenMetrics 1.0 text."
  public static let errors: [ErrorReason] = []

  public typealias Params = NoParams

  public struct Result: Codable, Sendable, Equatable {
    public var text: String
    public var content_type: String

    public init(text: String, content_type: String) {
      self.text = text
      self.content_type = content_type
    }
  }

  public static let resultDocs = [
    "text": "The metrics; it ends with `# EOF`.",
    "content_type": "The media type of `text`.",
  ]
  public static let example = MethodExample(
    params: .null,
    result: [
      "text": "# TYPE grantd_store_ok gauge\ngrantd_store_ok 1\n# EOF\n",
      "content_type": "application/openmetrics-text; version=1.0.0; charset=utf-8",
    ])
}
