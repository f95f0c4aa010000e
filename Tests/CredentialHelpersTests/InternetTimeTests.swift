import Testing

@testable import CredentialHelpers

@Suite struct InternetTimeTests {
  @Test(
    "A time is read as it is written",
    arguments: [
      ("1970-01-01T00:00:00Z", 0), ("2026-11-26T11:30:00Z", 1_795_692_600), ("2024-02-29T23:59:59.123Z", 1_709_251_199),
      ("2000-03-01T00:00:00Z", 951_868_800),
    ])
  func seconds(_ text: String, _ expected: Int64) {
    #expect(InternetTime.seconds(text) == expected)
    if !text.contains(".") { #expect(InternetTime.text(expected) == text) }
  }

  @Test(
    "an offset is taken into account",
    arguments: [
      ("2026-11-26T13:30:00+02:00", 1_795_692_600), ("2026-11-26T06:00:00.5-05:30", 1_795_692_600),
      ("1970-01-01T00:00:00+00:00", 0),
    ])
  func offset(_ text: String, _ expected: Int64) { #expect(InternetTime.seconds(text) == expected) }

  @Test(
    "Other forms are none",
    arguments: [
      "", "2026-11-26", "2026-11-26T11:30:00", "2026-13-26T11:30:00Z", "2026-11-26 11:30:00Z", "x026-11-26T11:30:00Z",
      "2026-11-26T11:30:00+2:00", "2026-11-26T11:30:00+24:00", "2026-11-26T11:30:00 +02:00", "+02:00",
    ])
  func none(_ text: String) { #expect(InternetTime.seconds(text) == nil) }
}
