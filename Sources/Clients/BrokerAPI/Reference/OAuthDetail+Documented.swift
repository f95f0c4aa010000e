extension OAuthDetail: Documented {
  public static let docs = [
    "error": "The error code (RFC 6749 §5.2).",
    "error_description": "The description for developers.",
    "error_uri": "A page about the error.",
  ]
}
