//! Where to begin: `"earliest"`, `"latest"`, `{"offset": 7}` or `{"time": "…"}`.

use serde::de::Error as _;
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::http::stamp::{read_stamp, stamp};
use crate::rooms::streams::Origin;

/// A place of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) struct Place(pub(super) Origin);

impl Serialize for Place {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = match self.0 {
            Origin::Earliest => return serializer.serialize_str("earliest"),
            Origin::Latest => return serializer.serialize_str("latest"),
            Origin::Offset(_) | Origin::Time(_) => serializer.serialize_map(Some(1))?,
        };
        match self.0 {
            Origin::Time(time) => map.serialize_entry("time", &stamp(time))?,
            Origin::Offset(offset) => map.serialize_entry("offset", &offset)?,
            Origin::Earliest | Origin::Latest => {}
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Place {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let wrong = || {
            D::Error::custom(
                r#"a place is "earliest", "latest", {"offset": 7} or {"time": "2027-01-01T00:00:00Z"}"#,
            )
        };
        let origin = match &value {
            Value::String(word) if word == "earliest" => Origin::Earliest,
            Value::String(word) if word == "latest" => Origin::Latest,
            Value::Object(fields) if fields.len() == 1 => {
                match (fields.get("offset"), fields.get("time")) {
                    (Some(offset), _) => Origin::Offset(offset.as_u64().ok_or_else(wrong)?),
                    (_, Some(Value::String(time))) => {
                        Origin::Time(read_stamp(time).map_err(D::Error::custom)?)
                    }
                    _ => return Err(wrong()),
                }
            }
            _ => return Err(wrong()),
        };
        Ok(Self(origin))
    }
}

impl PartialSchema for Place {
    fn schema() -> RefOr<Schema> {
        let word = ObjectBuilder::new()
            .schema_type(Type::String)
            .enum_values(Some(["earliest", "latest"]));
        let number = ObjectBuilder::new().schema_type(Type::Integer);
        let offset = ObjectBuilder::new().property("offset", number).required("offset");
        let text = ObjectBuilder::new().schema_type(Type::String);
        let time = ObjectBuilder::new().property("time", text).required("time");
        let words = "At the first message that is kept, behind the last, at an offset, or at the first message from a time on.";
        OneOfBuilder::new().item(word).item(offset).item(time).description(Some(words)).into()
    }
}

impl ToSchema for Place {
    fn name() -> std::borrow::Cow<'static, str> {
        "Place".into()
    }
}

#[cfg(test)]
mod tests {
    use super::Place;
    use serde_json::json;

    #[test]
    fn every_place_reads_back_and_anything_else_is_refused_in_words() {
        for place in [
            json!("earliest"),
            json!("latest"),
            json!({"offset": 7}),
            json!({"time": "2027-01-01T00:00:00Z"}),
        ] {
            let read: Place = serde_json::from_value(place.clone()).unwrap();
            assert_eq!(serde_json::to_value(read).unwrap(), place);
        }
        for wrong in [
            json!("soon"),
            json!(7),
            json!({"offset": -1}),
            json!({"offset": 1, "time": "2027-01-01T00:00:00Z"}),
            json!({"time": 5}),
            json!({}),
        ] {
            let why = serde_json::from_value::<Place>(wrong.clone()).unwrap_err().to_string();
            assert!(why.contains("a place is"), "{wrong}: {why}");
        }
        let why = serde_json::from_value::<Place>(json!({"time": "noon"})).unwrap_err();
        assert!(why.to_string().contains("is no time"), "{why}");
    }
}
